"""Timeline of a run: rows of bars and marks, with places in thousandths of the width. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.hostset import fold, fold_ranks
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.rank_end import described

WIDTH = 1000
SHOWN_ROWS = 16
"""Rows that are shown; of more nodes, those without an event are folded away."""

MOST_ROWS = 256
"""Rows in all; beyond, nodes without an event share one row."""

SLOWEST = 3
"""Nodes that were ready last, which count as eventful."""

LANE = 8
"""Height of a rank's bar."""

LEAST_BAR = 2.0


@dataclass(frozen=True)
class Bar:
    """A part of a row."""

    x: float
    width: float
    y: float
    height: float
    kind: str
    """Class in the style sheet: connect, prepare, wait, run, failed, stopped, victim."""

    title: str


@dataclass(frozen=True)
class TimelineMark:
    """A moment in a row."""

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
    is_eventful: bool = False


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

    def bar(self, begin: float, end: float, kind: str, title: str) -> Bar:
        x = min(self.x(begin), WIDTH - LEAST_BAR)
        return Bar(x, max(LEAST_BAR, round(self.x(end) - x, 1)), 1.0, LANE * 2.0, kind, title)

    @property
    def ticks(self) -> tuple[str, ...]:
        return tuple(seconds_text(self.span * part / 4) for part in range(5))


def start_timeline(record: RunRecord) -> Timeline | None:
    """Return the start: connect, prepare and wait for the release of each node, and the first exec of its ranks.

    None where no node was prepared.
    """
    prepared = {event.host: event for event in record.events if event.kind is EventKind.PREPARED and event.host}
    if not prepared:
        return None
    first_ranks = _first_ranks(record)
    last = max([*first_ranks.values(), *(event.time for event in prepared.values())])
    axis = _Axis(record.created_at, last)
    rows = []
    for name in (node.host.name for node in record.plan.nodes):
        event = prepared.get(name)
        rows.append(
            TimelineRow(name, LANE * 2 + 2, (), note="never ready", is_eventful=True)
            if event is None
            else _start_row(name, event, first_ranks.get(name), axis)
        )
    last_ready = sorted(prepared.values(), key=lambda event: event.time)[-SLOWEST:]
    slow = {event.host for event in last_ready}
    return _folded([replace(row, is_eventful=row.is_eventful or row.label in slow) for row in rows], axis)


def _start_row(name: str, event: Event, released: float | None, axis: _Axis) -> TimelineRow:
    prepare, connect = event.seconds.get("prepare", 0.0), event.seconds.get("connect", 0.0)
    ready = event.time
    bars = [
        axis.bar(ready - prepare - connect, ready - prepare, "connect", f"connect {seconds_text(connect)}"),
        axis.bar(ready - prepare, ready, "prepare", f"prepare {seconds_text(prepare)}"),
    ]
    marks = []
    if released is not None:
        bars.append(axis.bar(ready, released, "wait", f"ready, waits {seconds_text(released - ready)} for the release"))
        marks.append(TimelineMark(axis.x(released), "release", "first rank starts"))
    return TimelineRow(name, LANE * 2 + 2, tuple(bars), tuple(marks), f"ready after {seconds_text(prepare + connect)}")


def _first_ranks(record: RunRecord) -> dict[str, float]:
    found: dict[str, float] = {}
    for event in record.events:
        if event.kind is EventKind.RANK_STARTED and event.host is not None:
            found[event.host] = min(event.time, found.get(event.host, event.time))
    return found


def start_skew(record: RunRecord) -> float | None:
    """Return the seconds between the first ranks of the first and of the last node; None for fewer than two nodes."""
    first = _first_ranks(record).values()
    return max(first) - min(first) if len(first) > 1 else None


def run_timeline(record: RunRecord) -> Timeline | None:
    """Return the ranks of each node from their start to their end, the first failure marked; None without ranks."""
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
        name = node.host.name
        bars = []
        for lane, rank in enumerate(node.ranks):
            if rank.rank in started:
                end = ends.get(rank.rank)
                until = last if end is None else end.time
                kind, what = bar_of(end)
                length = seconds_text(until - started[rank.rank])
                whole = axis.bar(started[rank.rank], until, kind, f"rank {rank.rank}: {what} after {length}")
                bars.append(replace(whole, y=lane * LANE + 1.0, height=LANE - 1.0))
        is_cause = named is not None and named.host == name
        own = [
            end for rank in node.ranks if (end := ends.get(rank.rank)) is not None and end.failed and not end.symptom
        ]
        marks = [*_failures(own, axis), *_contacts(record.events, name, axis)]
        rows.append(
            TimelineRow(
                name,
                max(2, len(node.ranks)) * LANE + 2,
                tuple(bars),
                tuple(marks),
                _note(own, marks, axis),
                is_cause,
                is_eventful=is_cause or bool(marks),
            )
        )
    return _folded(rows, axis)


def bar_of(end: RankEnd | None) -> tuple[str, str]:
    """Return the class of a rank's bar, and its state in words."""
    if end is None:
        return "unknown", "no end is recorded"
    if end.exit_code == 0 and not end.stopped:
        return "run", "exited with code 0"
    if end.stopped:
        return "stopped", "stopped with the run"
    return ("victim" if end.symptom else "failed"), described(end)


def _failures(own: Sequence[RankEnd], axis: _Axis) -> Iterable[TimelineMark]:
    return (TimelineMark(axis.x(end.time), "failure", f"{end.who} {described(end)}") for end in own)


def _contacts(events: Iterable[Event], host: str, axis: _Axis) -> Iterable[TimelineMark]:
    kinds = {EventKind.CONTACT_LOST: "contact lost", EventKind.CONTACT_REGAINED: "contact regained"}
    for event in events:
        if event.host == host and event.kind in kinds:
            yield TimelineMark(axis.x(event.time), "contact", f"{kinds[event.kind]} {event.text}".strip())


def _note(own: Sequence[RankEnd], marks: Sequence[TimelineMark], axis: _Axis) -> str:
    if own:
        first = min(own, key=lambda end: end.time)
        who = fold_ranks(sorted(end.rank for end in own if end.rank is not None))
        return f"rank {who} failed at {seconds_text(first.time - axis.begin)}"
    return "contact lost" if any(mark.kind == "contact" for mark in marks) else ""


def _folded(rows: Sequence[TimelineRow], axis: _Axis) -> Timeline:
    """Return all rows, or of many the eventful ones, with the others folded away."""
    if len(rows) <= SHOWN_ROWS:
        return Timeline(tuple(rows), (), axis.ticks)
    shown = [row for row in rows if row.is_eventful][:SHOWN_ROWS] or list(rows[:1])
    labels = {row.label for row in shown}
    rest = [row for row in rows if row.label not in labels]
    if len(rest) > MOST_ROWS:
        first = rest[0]
        note = f"{len(rest)} nodes; the bars are those of {first.label}"
        rest = [TimelineRow(fold(row.label for row in rest), first.height, first.bars, (), note)]
    return Timeline(tuple(shown), tuple(rest), axis.ticks)


def seconds_text(seconds: float) -> str:
    """Return a duration with three digits: 12 ms, 3.4 s, 5 min 2 s, 3 h 10 min."""
    if seconds < 0:
        return f"-{seconds_text(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def phases(record: RunRecord) -> Mapping[str, float]:
    """Return the duration of each phase of the start of the whole run, without its skew."""
    released = [event for event in record.events if event.kind is EventKind.RELEASED and event.host is None]
    return {name: value for name, value in released[-1].seconds.items() if name != "skew"} if released else {}
