"""The model of a live run, which takes its events, and its words: state and progress of ranks. Pure."""

import re
from collections import deque

from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.hostset import fold, fold_ranks
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind, PreviousAttempt
from pylaunch.model.text.quantity import duration
from pylaunch.model.text.sanitise import rank_output, visible_line
from pylaunch.runs.events import LinesWritten, ProgressReported, RunEvent

MOST_LINES = 16
"""Different last lines that are shown."""

LONGEST_LINE = 400
LONGEST_OUTPUT = 4000
"""Characters of a line that are shown, and of output in which the last line is looked for."""

WINDOW_S = 60.0
"""The rate is measured over the last minute."""

STALLED_STEPS = 3.0
STALLED_S = 10.0
"""A rank that is late by this many steps and seconds has no rate."""

LONGEST_S = 10 * 365 * 86400.0


@dataclass(frozen=True)
class RankStep:
    """The last step of a rank, and when, in seconds since the epoch on our clock."""

    rank: int
    step: float
    time: float
    total: float = 0
    """The last step that there will be; 0 where the rank does not say."""


@dataclass
class Pace:
    """The last marks of every rank."""

    _marks: dict[int, deque[RankStep]] = field(default_factory=dict)

    def add(self, mark: RankStep) -> None:
        """Add a mark, which may be known already. Earlier marks are dropped when steps begin again."""
        marks = self._marks.setdefault(mark.rank, deque())
        if marks and (mark.step < marks[-1].step or mark.time < marks[-1].time):
            marks.clear()
        if not marks or mark.step > marks[-1].step:
            marks.append(mark)
        while len(marks) > 2 and marks[-1].time - marks[1].time >= WINDOW_S:
            marks.popleft()

    def rate(self, rank: int, now: float) -> float | None:
        """Return the steps a second; None before the second mark, and while the next step is overdue."""
        marks = self._marks.get(rank)
        if marks is None or len(marks) < 2 or (elapsed := marks[-1].time - marks[0].time) <= 0:
            return None
        rate = (marks[-1].step - marks[0].step) / elapsed
        return rate if now - marks[-1].time < STALLED_S + STALLED_STEPS / rate else None

    def left_s(self, mark: RankStep, now: float) -> float | None:
        """Return the seconds for the steps after `mark`; None when their number is not known."""
        rate = self.rate(mark.rank, now)
        if rate is None or mark.total <= 0:
            return None
        left = (mark.total - mark.step) / rate - (now - mark.time)
        return max(0.0, left) if left < LONGEST_S else None


def shown_rate(rate: float) -> str:
    """ "4.1 steps/s", "3.2 s/step"."""
    return f"{rate:.3g} steps/s" if rate > 1 else f"{1 / rate:.3g} s/step"


@dataclass
class Board:
    """Latest events and steps of a live run."""

    plan: RunPlan
    previous: PreviousAttempt | None = None
    phase: str = "starting"
    started_at: float | None = None
    running: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)
    """Hosts that have reported the progress of their ranks."""

    steps: dict[int, RankStep] = field(default_factory=dict)
    last_lines: dict[int, str] = field(default_factory=dict)
    """The last line of output of each rank."""

    pace: Pace = field(default_factory=Pace)

    def add(self, event: RunEvent) -> None:
        """Update the model with an event of the run, its output or its progress. All times are passed in."""
        match event:
            case Event():
                self._happened(event)
            case LinesWritten():
                self._wrote(event)
            case ProgressReported():
                self.reported.add(event.host)
                for each in event.ranks:
                    if each.step is not None:  # A rank whose mark could not be read keeps the mark before.
                        step = RankStep(each.rank, each.step, each.time, each.total)
                        self.steps[step.rank] = step
                        self.pace.add(step)
            case _:
                pass

    def _happened(self, event: Event) -> None:
        if event.kind in (EventKind.RELEASED, EventKind.ATTACHED):
            self.phase, self.started_at = "running", self.started_at or event.time
        elif event.kind is EventKind.RANK_STARTED and event.rank is not None:
            self.started_at = min(self.started_at or event.time, event.time)
            self.running.add(event.rank)
        elif event.kind is EventKind.RANK_ENDED and event.rank is not None:
            self.running.discard(event.rank)
            self.ended.add(event.rank)
        elif event.kind is EventKind.STOP_ASKED:
            self.phase = "stopping"
        elif event.kind is EventKind.CONTACT_LOST and event.host is not None:
            self.lost.add(event.host)
        elif event.kind is EventKind.CONTACT_REGAINED and event.host is not None:
            self.lost.discard(event.host)

    def _wrote(self, event: LinesWritten) -> None:
        """Keep the last line of a rank."""
        rank, _, _ = event.stream.partition(".")
        lines = [each for each in re.split(r"[\r\n]", event.text[-LONGEST_OUTPUT:]) if each.strip()]
        if lines and rank.isdecimal():
            self.last_lines[int(rank)] = lines[-1].strip()

    @property
    def state(self) -> tuple[object, ...]:
        """State whose changes are printed: everything but time and steps."""
        return self.plan.run, self.phase, frozenset(self.running), frozenset(self.ended), frozenset(self.lost)

    def lines(self, now: float) -> list[str]:
        """Return the board at `now` in lines, which a narrow terminal may cut. Last lines are apart: `output`."""
        progress = self.progress(now)
        return [self.head(now), *self.attempt(), *([f"  {progress}"] if progress else [])]

    def attempt(self) -> list[str]:
        """Return the spares, and why the attempt before this one ended."""
        spares = fold(host.name for host in self.plan.spares)
        shown = [f"  {'spare' if len(self.plan.spares) == 1 else 'spares'}: {spares}"] if spares else []
        if self.previous is not None:
            reason = f"{self.previous.run} ended: {self.previous.reason}"
            shown.append(f"  {self.plan.attempt_words}, because {visible_line(reason)}")
        return shown

    def head(self, now: float) -> str:
        """Return the state of the run in one line."""
        since = f" for {duration(now - self.started_at)}" if self.started_at is not None else ""
        again = f" ({self.plan.attempt_words})" if self.plan.restart else ""
        hosts = fold(node.host.name for node in self.plan.nodes)
        ranks = f"{len(self.running)} of {self.plan.world_size} ranks"
        ended = f", {len(self.ended)} ended" if self.ended else ""
        lost = f", no contact with {fold(self.lost)}" if self.lost else ""
        return f"run {self.plan.run} {self.phase}{since}{again}: {ranks} on {hosts}{ended}{lost}"

    def output(self) -> list[str]:
        """Return the last line of every rank, in the order of ranks; ranks with the same line share it."""
        ranks: dict[str, list[int]] = {}
        for rank, line in sorted(self.last_lines.items()):
            ranks.setdefault(line, []).append(rank)
        shown = []
        for line, each in list(ranks.items())[:MOST_LINES]:
            who = f"{'rank' if len(each) == 1 else 'ranks'} {fold_ranks(each)}"
            shown.append(f"  {who} | {rank_output(line[:LONGEST_LINE], colours=False)}")
        hidden = sum(map(len, list(ranks.values())[MOST_LINES:]))
        return shown + ([f"  and {hidden} further ranks: pylaunch logs {self.plan.run} --tail 1"] if hidden else [])

    def progress(self, now: float) -> str:
        """Return the progress of the ranks in one line; "" when no rank marks its steps."""
        ends = self.extremes()
        if ends is None:
            return ""
        slowest, furthest = ends
        count = len(self._marks())
        silent = f"; {len(self._going()) - count} mark no steps" if count < len(self._going()) else ""
        if slowest.step == furthest.step:
            several = "all ranks, the last" if count == len(self._going()) else f"{count} ranks, the last"
            who = several if count > 1 else f"{self._who(furthest)},"
            return f"{_step(furthest)}{self._pace(slowest, now)}: {who} {_ago(furthest, now)}{silent}"
        return (
            f"{_step(furthest)}{self._pace(slowest, now)}: {self._who(furthest)}, {_ago(furthest, now)}; "
            f"slowest {slowest.step:.10g}: {self._who(slowest)}, {_ago(slowest, now)}{silent}"
        )

    def _pace(self, slowest: RankStep, now: float) -> str:
        """Return the rate of the slowest rank, for which the others wait, and its remaining time."""
        rate = self.pace.rate(slowest.rank, now)
        left = self.pace.left_s(slowest, now)
        parts = ([shown_rate(rate)] if rate is not None else []) + (
            [f"{duration(left)} left"] if left is not None else []
        )
        return f" ({', '.join(parts)})" if parts else ""

    def extremes(self) -> tuple[RankStep, RankStep] | None:
        """Return the slowest and the furthest rank, of the running ones if any; of equals the latest to mark."""
        marks = self._marks()
        if not marks:
            return None
        return (
            min(marks, key=lambda mark: (mark.step, -mark.time, mark.rank)),
            max(marks, key=lambda mark: (mark.step, mark.time, -mark.rank)),
        )

    def _marks(self) -> list[RankStep]:
        return [self.steps[rank] for rank in self._going() if rank in self.steps]

    def _going(self) -> set[int]:
        return self.running or self.steps.keys() | self.ended

    def _who(self, mark: RankStep) -> str:
        return f"rank {mark.rank} on {self.plan.node_of_rank(mark.rank).host.name}"


def _step(mark: RankStep) -> str:
    of = f" of {mark.total:.10g}" if mark.total > 0 else ""
    return f"step {mark.step:.10g}{of}"


def _ago(mark: RankStep, now: float) -> str:
    return f"{duration(max(0.0, now - mark.time))} ago"
