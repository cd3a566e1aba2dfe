"""Nodes of a run for a report: their ranks with last lines, and bars on one axis in thousandths of its width. Pure."""

from collections.abc import Callable

from pylaunch.base.dataclass import dataclass
from pylaunch.model.hostset import fold_ranks
from pylaunch.model.outcome import Named
from pylaunch.model.plan import NodePlan
from pylaunch.model.run import EventKind, RunRecord
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.failure_evidence import seconds
from pylaunch.verdict.rank_end import described

WIDTH = 1000
LANE = 8
"""Height of a rank's bar."""

LEAST_BAR = 2.0
SHOWN = 16
"""Nodes that are shown, those with an event of their own first; more are folded away."""

ALL_LOGS, ONE_LOG, LEAST_LOG = 1_000_000, 20_000, 1000
"""Characters of the last lines of all ranks together, and of one rank."""

LONGEST_LINE = 2000


@dataclass(frozen=True)
class RankRow:
    """One rank: its end, its last lines, and its bar from its start to its end."""

    rank: int
    kind: str
    """Class in the style sheet: run, failed, stopped, victim, unknown."""

    end: str
    step: int | None
    lines: tuple[str, ...]
    is_named: bool
    x: float = 0.0
    width: float = 0.0
    """0 without a bar: its start is not recorded."""

    title: str = ""


@dataclass(frozen=True)
class NodeRow:
    """One node."""

    host: str
    ranks: tuple[RankRow, ...]
    note: str
    is_cause: bool
    is_open: bool
    """Its last lines are shown at once: those of the named rank, else of the first that failed."""

    @property
    def height(self) -> int:
        return max(2, len(self.ranks)) * LANE + 2

    @property
    def summary(self) -> str:
        """Return the ends of its ranks: "ranks 0,2-3 stopped; rank 1 failed"."""
        kinds: dict[str, list[int]] = {}
        for rank in self.ranks:
            words = {"run": "done", "victim": "failed with others", "unknown": "no end recorded"}
            kinds.setdefault(words.get(rank.kind, rank.kind), []).append(rank.rank)
        return "; ".join(f"rank{'s' * (len(all_) > 1)} {fold_ranks(all_)} {words}" for words, all_ in kinds.items())

    @property
    def has_lines(self) -> bool:
        """True if there is more to show than the summary."""
        return any(rank.lines or rank.is_named for rank in self.ranks)


class _Axis:
    """Ranks of a run from their start to their end."""

    def __init__(self, record: RunRecord) -> None:
        self.started = {event.rank: event.time for event in record.events if event.kind is EventKind.RANK_STARTED}
        ends = () if record.outcome is None else record.outcome.ends
        self.ends = {end.rank: end for end in ends if end.rank is not None}
        times = [event.time for event in record.events if event.kind is not EventKind.ATTACHED]
        times += [end.time for end in self.ends.values()]
        self.begin = min(self.started.values(), default=0.0)
        self.last = max(times, default=0.0)
        self.span = max(self.last - self.begin, 1e-3)

    def x(self, time: float) -> float:
        return round(min(1.0, max(0.0, (time - self.begin) / self.span)) * WIDTH, 1)


def nodes(record: RunRecord, hide: Callable[[str], str]) -> list[NodeRow]:
    """Return the nodes of a run that has started; `hide` masks secrets in lines of ranks before these are cut."""
    if not record.has_started:
        return []
    axis, limit = _Axis(record), max(LEAST_LOG, min(ONE_LOG, ALL_LOGS // max(1, record.plan.world_size)))
    rows = [_row(node, record, axis, lambda end: last_lines(end, limit, hide)) for node in record.plan.nodes]
    return rows if len(rows) <= SHOWN else sorted(rows, key=lambda row: (not row.is_open, not row.note))


def ticks(record: RunRecord) -> list[str]:
    """Return labels at equal distances of the axis; [] where no start is recorded."""
    axis = _Axis(record)
    return [seconds(axis.span * part / 4) for part in range(5)] if axis.started else []


def _row(node: NodePlan, record: RunRecord, axis: _Axis, lines: Callable[[RankEnd], tuple[str, ...]]) -> NodeRow:
    host, ranks = node.host.name, []
    named, first = (None, None) if record.outcome is None else (record.outcome.named, record.outcome.first_failure)
    for rank in (each.rank for each in node.ranks):
        end, began = axis.ends.get(rank), axis.started.get(rank)
        kind, what = _kind(end)
        step, tail = (None, ()) if end is None else (end.step, lines(end))
        x, width, title = 0.0, 0.0, ""
        if began is not None:
            until = axis.last if end is None else end.time
            x = min(axis.x(began), WIDTH - LEAST_BAR)
            width = max(LEAST_BAR, round(axis.x(until) - x, 1))
            title = f"rank {rank}: {what} after {seconds(until - began)}"
        ranks.append(RankRow(rank, kind, what, step, tail, named == Named(host, rank), x, width, title))
    is_lost = any(event.kind is EventKind.CONTACT_LOST and event.host == host for event in record.events)
    note = "contact lost" if is_lost else ""
    if own := [end for end in axis.ends.values() if end.host == host and end.failed and not end.symptom]:
        who = fold_ranks(sorted(end.rank for end in own if end.rank is not None))
        note = f"rank {who} failed at {seconds(min(end.time for end in own) - axis.begin)}"
    is_cause = named is not None and named.host == host
    return NodeRow(host, tuple(ranks), note, is_cause, is_cause or (first is not None and first.host == host))


def _kind(end: RankEnd | None) -> tuple[str, str]:
    """Return the class of a rank's bar, and its state in words."""
    if end is None:
        return "unknown", "no end is recorded"
    if end.stopped:
        return "stopped", "stopped with the run"
    if end.exit_code == 0:
        return "run", "exited with code 0"
    return ("victim" if end.symptom else "failed"), described(end)


def last_lines(end: RankEnd, limit: int, hide: Callable[[str], str]) -> tuple[str, ...]:
    """Return the last lines of a rank, masked and then cut: none too long, and within `limit` characters."""
    kept: list[str] = []
    longest = min(limit, LONGEST_LINE)
    for line in reversed(hide("\n".join(end.last_lines)).split("\n")):
        limit -= min(len(line), longest)
        if limit < 0:
            break
        if line.strip():
            kept.insert(0, line if len(line) <= longest else f"{line[:longest]}…")
    return tuple(kept)
