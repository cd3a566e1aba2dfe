"""Timeline of a run: a row for each node, with a bar for each rank and marks, in thousandths of the width. Pure."""

from collections.abc import Iterable, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.model.hostset import fold, fold_ranks
from pylaunch.model.run import EventKind, RunRecord
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.failure_evidence import seconds
from pylaunch.verdict.rank_end import described

WIDTH = 1000
SHOWN_ROWS = 16
"""Rows that are shown; of more nodes, those without an event are folded away."""

MOST_ROWS = 256
"""Rows in all; beyond, nodes without an event share one row."""

LANE = 8
"""Height of a rank's bar."""

LEAST_BAR = 2.0
CONTACTS = {EventKind.CONTACT_LOST: "contact lost", EventKind.CONTACT_REGAINED: "contact regained"}


@dataclass(frozen=True)
class Bar:
    """One rank, from its start to its end."""

    x: float
    width: float
    y: float
    kind: str
    """Class in the style sheet: run, failed, stopped, victim, unknown."""

    title: str


@dataclass(frozen=True)
class TimelineMark:
    """A moment in a row: a failure, or a lost contact."""

    x: float
    kind: str
    title: str


@dataclass(frozen=True)
class TimelineRow:
    """One node, or several nodes without events of their own."""

    label: str
    height: float
    bars: tuple[Bar, ...]
    marks: tuple[TimelineMark, ...] = ()
    note: str = ""
    is_cause: bool = False


@dataclass(frozen=True)
class Timeline:
    """Rows on one axis."""

    rows: tuple[TimelineRow, ...]
    folded: tuple[TimelineRow, ...]
    """Further rows, for a reader who wants all nodes."""

    ticks: tuple[str, ...]
    """Labels at equal distances, from the first instant to the last."""


class _Axis:
    def __init__(self, begin: float, end: float) -> None:
        self.begin = begin
        self.span = max(end - begin, 1e-3)

    def x(self, time: float) -> float:
        return round(min(1.0, max(0.0, (time - self.begin) / self.span)) * WIDTH, 1)


def start_skew(record: RunRecord) -> float | None:
    """Return the seconds between the first ranks of the first and of the last node; None for fewer than two nodes."""
    found: dict[str, float] = {}
    for event in record.events:
        if event.kind is EventKind.RANK_STARTED and event.host is not None:
            found[event.host] = min(event.time, found.get(event.host, event.time))
    return max(found.values()) - min(found.values()) if len(found) > 1 else None


def run_timeline(record: RunRecord) -> Timeline | None:
    """Return the ranks of each node from their start to their end, with failures marked; None without ranks."""
    started = {event.rank: event.time for event in record.events if event.kind is EventKind.RANK_STARTED}
    if not started:
        return None
    outcome = record.outcome
    ends = {} if outcome is None else {end.rank: end for end in outcome.ends if end.rank is not None}
    times = [*started.values(), *(end.time for end in ends.values())]
    last = max([*times, *(event.time for event in record.events if event.kind is not EventKind.ATTACHED)])
    axis = _Axis(min(started.values()), last)
    named = outcome.named if outcome is not None else None
    rows = []
    for node in record.plan.nodes:
        bars = []
        for lane, rank in enumerate(node.ranks):
            if rank.rank in started:
                end = ends.get(rank.rank)
                until = last if end is None else end.time
                kind, what = bar_of(end)
                x = min(axis.x(started[rank.rank]), WIDTH - LEAST_BAR)
                title = f"rank {rank.rank}: {what} after {seconds(until - started[rank.rank])}"
                width = max(LEAST_BAR, round(axis.x(until) - x, 1))
                bars.append(Bar(x, width, lane * LANE + 1.0, kind, title))
        own = [ends[rank.rank] for rank in node.ranks if rank.rank in ends]
        own = [end for end in own if end.failed and not end.symptom]
        marks = [
            *(TimelineMark(axis.x(end.time), "failure", f"{end.who} {described(end)}") for end in own),
            *(
                TimelineMark(axis.x(event.time), "contact", f"{CONTACTS[event.kind]} {event.text}".strip())
                for event in record.events
                if event.host == node.host.name and event.kind in CONTACTS
            ),
        ]
        is_cause = named is not None and named.host == node.host.name
        height = max(2, len(node.ranks)) * LANE + 2
        rows.append(TimelineRow(node.host.name, height, tuple(bars), tuple(marks), _note(own, marks, axis), is_cause))
    return _folded(rows, tuple(seconds(axis.span * part / 4) for part in range(5)))


def bar_of(end: RankEnd | None) -> tuple[str, str]:
    """Return the class of a rank's bar, and its state in words."""
    if end is None:
        return "unknown", "no end is recorded"
    if end.exit_code == 0 and not end.stopped:
        return "run", "exited with code 0"
    if end.stopped:
        return "stopped", "stopped with the run"
    return ("victim" if end.symptom else "failed"), described(end)


def _note(own: Sequence[RankEnd], marks: Iterable[TimelineMark], axis: _Axis) -> str:
    if own:
        first = min(own, key=lambda end: end.time)
        who = fold_ranks(sorted(end.rank for end in own if end.rank is not None))
        return f"rank {who} failed at {seconds(first.time - axis.begin)}"
    return "contact lost" if any(mark.kind == "contact" for mark in marks) else ""


def _folded(rows: Sequence[TimelineRow], ticks: tuple[str, ...]) -> Timeline:
    """Return all rows, or of many those with the cause or a mark, with the others folded away."""
    if len(rows) <= SHOWN_ROWS:
        return Timeline(tuple(rows), (), ticks)
    shown = [row for row in rows if row.is_cause or row.marks][:SHOWN_ROWS] or list(rows[:1])
    labels = {row.label for row in shown}
    rest = [row for row in rows if row.label not in labels]
    if len(rest) > MOST_ROWS:
        first = rest[0]
        note = f"{len(rest)} nodes; the bars are those of {first.label}"
        rest = [TimelineRow(fold(row.label for row in rest), first.height, first.bars, (), note)]
    return Timeline(tuple(shown), tuple(rest), ticks)
