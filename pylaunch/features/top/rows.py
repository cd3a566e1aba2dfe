"""State of a live run from the reports of its nodes, and rows of the two tables. Pure.

Text of nodes and ranks passes through `model/text/sanitise.py` here: cells are safe to draw.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.hostset import expand, fold
from pylaunch.model.plan import base_of
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.model.text.sanitise import rank_output, visible_line
from pylaunch.runs.follow.run_events import LinesWritten, Notice, RunEvent, UsageReported
from pylaunch.terminal.columns import cropped
from pylaunch.terminal.listing import duration, job_words
from pylaunch.terminal.views.board import Board, load_of
from pylaunch.terminal.views.pace import shown_rate

TREND_S, SAMPLE_S = 600.0, 10.0
"""The trend compares the rate with the median of the samples of this time."""

FEWEST_SAMPLES = 3
LONGEST_LINE = 200
WIDEST_CELL = 20
UNKNOWN = "-"
RUN_COLUMNS = dict.fromkeys(("RUN", "STATE", "NODES", "STEP", "RATE", "TREND", "SINCE", "JOB", "LAST LINE"))
NODE_COLUMNS = {"NODE, RANK": None, "SINCE": 11, "STEP": 12, "LOAD, LAST LINE": LONGEST_LINE}
"""Headings with the width of their column; None: as wide as its cells, which takes long to measure for many ranks."""


class TableRow(NamedTuple):
    """One line of a table. There are hundreds in each drawing, and a dataclass takes four times as long."""

    key: tuple[str, str]
    """Subject: ("run", id), ("node", host) or ("rank", number)."""

    cells: tuple[str, ...]
    is_alert: bool = False


@dataclass
class LiveRun:
    """One attempt of a run that is followed."""

    record: RunRecord
    """Has an outcome once the run is over."""

    board: Board
    answered: dict[str, float] = field(default_factory=dict)
    """Time at which the load of each host arrived last, on our clock."""

    reasons: dict[str, str] = field(default_factory=dict)
    """Reasons of hosts without contact."""

    trouble: str = ""
    """Reason why no node of the run can be asked; "" while nodes are."""

    notice: str = ""
    last_writer: int | None = None
    """Rank that wrote last."""

    rates: deque[tuple[float, float]] = field(default_factory=deque)
    """Samples of the rate of the slowest rank: time, steps a second."""

    def take(self, event: RunEvent, now: float) -> None:
        """Update the state with a report that arrived at `now`."""
        match event:
            case Event():
                self.board.on(event)
                if event.host is not None and event.kind is EventKind.CONTACT_LOST:
                    self.reasons[event.host] = event.text
            case LinesWritten():
                self.board.wrote(event.stream, event.text, event.time)
                rank = event.stream.partition(".")[0]
                if rank.isdecimal():
                    self.last_writer = int(rank)
            case UsageReported():
                self.trouble = ""
                self.board.read(event.host, event.usage)
                self.answered[event.host] = now
                is_due = not self.rates or now - self.rates[-1][0] >= SAMPLE_S
                if is_due and (rate := self.rate(now)) is not None:
                    self.rates.append((now, rate))
            case Notice():
                self.notice = event.text

    def rate(self, now: float) -> float | None:
        """Return the steps a second of the slowest rank; None where it is unknown or the next step is overdue."""
        ends = self.board.extremes()
        return self.board.pace.rate(ends[0].rank, now) if ends is not None and ends[0].unit == "step" else None

    def trend(self, now: float) -> str:
        """Return the change of the rate against the median of its samples: "+3%"."""
        while self.rates and now - self.rates[0][0] > TREND_S:
            self.rates.popleft()
        rate, usual = self.rate(now), sorted(rate for _, rate in self.rates)
        known = rate is not None and len(usual) >= FEWEST_SAMPLES
        return f"{round(100 * (rate / usual[len(usual) // 2] - 1)):+d}%" if known and rate is not None else UNKNOWN

    def line(self, rank: int) -> str:
        """Return the last line of a rank."""
        return rank_output(self.board.last_lines.get(rank, "")[:LONGEST_LINE], colours=False).expandtabs(1)

    def state(self) -> tuple[str, bool]:
        """Return the state in a word or two, and whether a person should look."""
        outcome = self.record.outcome
        if outcome is not None:
            return outcome.status.value + (", unproven" if outcome.unproven else ""), outcome.status.value != "done"
        if self.trouble:
            return "unreachable", True
        if self.board.lost:
            return f"{self.board.phase}, {len(self.board.lost)} silent", True
        return (self.board.phase, False) if self.record.last_hang is None else (f"{self.board.phase}, hang", True)

    def notes(self, now: float) -> list[str]:
        """Return the outcome or the trouble of the run, then hosts without contact, one line each."""
        found, outcome, hang = [], self.record.outcome, self.record.last_hang
        if outcome is not None:
            found.append(f"{outcome.status.value}: {outcome.reason}")
            found += [f"{fold(outcome.unproven)}: not known to be clean"] if outcome.unproven else []
        elif self.trouble:
            found.append(f"no node can be asked: {self.trouble}")
        elif hang is not None:
            found.append(f"{hang.text} ({_age(hang.time, now)} ago)")
        found += [f"no contact with {host}: {self.reasons.get(host, '')}" for host in sorted(self.board.lost)]
        return [visible_line(line) for line in (*found, self.notice) if line]


def run_rows(runs: Iterable[LiveRun], wanted: Sequence[str], now: float) -> list[TableRow]:
    """Return a row for each run that has a node which `wanted` names: live ones first, then the newest."""
    shown = [run for run in runs if any(is_wanted(node.host.name, wanted) for node in run.record.plan.nodes)]
    shown.sort(key=lambda run: (run.record.outcome is not None, -run.record.created_at))
    return [_run_row(run, now) for run in shown]


def _run_row(run: LiveRun, now: float) -> TableRow:
    plan, ends, rate = run.record.plan, run.board.extremes(), run.rate(now)
    state, is_alert = run.state()
    part, words = plan.job.part, job_words(plan.job.command)
    job = f"{part.job_name} {part.name}" if part is not None else words.split(" ")[0].rpartition("/")[2]
    step = since = UNKNOWN
    if ends is not None:
        unit, of = ends[0].unit.replace("step", ""), f"/{ends[0].total:.10g}" if ends[0].total > 0 else ""
        step, since = f"{unit} {ends[0].step:.10g}{of}".strip(), _age(ends[0].time, now)
    cells = (
        plan.run, state, fold(node.host.name for node in plan.nodes), step,
        UNKNOWN if rate is None else shown_rate(rate), run.trend(now), since, job,
    )  # fmt: skip
    shown = [cropped(visible_line(cell), WIDEST_CELL) for cell in cells]
    last_line = "" if run.last_writer is None else f"rank {run.last_writer} | {run.line(run.last_writer)}"
    return TableRow(("run", base_of(plan.run)), (*shown, last_line), is_alert)


def node_rows(run: LiveRun, wanted: Sequence[str], now: float) -> list[TableRow]:
    """Return a row for each node that `wanted` names, and below it one for each of its ranks."""
    rows: list[TableRow] = []
    for node in run.record.plan.nodes:
        host, usage = node.host.name, run.board.usage.get(node.host.name)
        if not is_wanted(host, wanted):
            continue
        is_lost = host in run.board.lost and run.record.outcome is None
        text = "" if usage is None or run.record.outcome is not None else load_of(usage)
        text = f"no contact: {run.reasons.get(host, '')}" if is_lost else text
        since = _age(run.answered[host], now) if host in run.answered else UNKNOWN
        rows.append(TableRow(("node", host), tuple(map(visible_line, (host, since, "", text))), is_lost))
        for rank in (each.rank for each in node.ranks):
            mark, ended = run.board.steps.get(rank), "ended | " if rank in run.board.ended else ""
            since, step = (UNKNOWN, UNKNOWN) if mark is None else (_age(mark.time, now), f"{mark.step:.10g}")
            rows.append(TableRow(("rank", str(rank)), (f"  rank {rank}", since, step, ended + run.line(rank))))
    return rows


def _age(time: float, now: float) -> str:
    return duration(max(0.0, now - time))


def wanted_nodes(text: str) -> tuple[str, ...]:
    """Return the words of a filter, with brackets expanded; a bracket that is not closed yet is part of a word."""
    try:
        return expand(text)
    except ValueError:
        return (text,)


def is_wanted(host: str, wanted: Sequence[str]) -> bool:
    """Return True if the name of `host` contains one of the words, or if there are none."""
    return not wanted or any(word in host for word in wanted)
