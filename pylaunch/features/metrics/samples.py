"""Numbers of live runs and of their nodes at one moment, and the attempts that have ended."""

import time
from collections import Counter
from collections.abc import Mapping

from pylaunch.features.metrics.live_runs import LiveRuns
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan, base_of
from pylaunch.model.run import Event, EventKind
from pylaunch.model.text.sanitise import visible_line
from pylaunch.runs import steady_clock
from pylaunch.runs.events import LinesWritten, RunEvent, UsageReported
from pylaunch.terminal.views.board import Board
from pylaunch.verdict.causes.cause_kinds import KINDS

HANG, UNKNOWN = "hang", "unknown"
"""Kinds of failures beside those of causes."""

LONGEST_LABEL = 253
"""Characters of a host name in DNS."""

Sample = Mapping[str, Mapping[tuple[str, ...], float | None]]
"""Numbers of one run, in its current attempt: by name of `OF_RUN` and `OF_NODE`, and by labels. None: no such number.

The states of ranks are waiting, running, ended, unknown (contact with their node is lost).
"""

LAST_ANSWER = "node_last_answer_age_seconds"
"""In a sample an instant on the monotonic clock of this machine; its age depends on when it is read."""

OF_RUN = {
    "run_restarts": "Restarts of the run so far.",
    "run_started_timestamp_seconds": "Instant at which the ranks of the attempt started.",
    "run_step_slowest": "Last step of the slowest rank.",
    "run_step_furthest": "Last step of the furthest rank.",
    "run_steps_per_second": "Steps per second of the slowest rank in the last minute.",
}
OF_NODE = {
    "node_up": "1 if the node answers, else 0.",
    LAST_ANSWER: "Time since the last answer of the node.",
}


def sample_of(board: Board, heard: Mapping[str, float], now: float) -> Sample:
    """Return the numbers of `board` at `now`, seconds since the epoch. `heard` has the last answer of each host."""
    plan = board.plan
    run = base_of(plan.run)
    lost = {rank.rank for node in plan.nodes if node.host.name in board.lost for rank in node.ranks} - board.ended
    running = board.running - lost
    counts = {"running": len(running), "ended": len(board.ended), "unknown": len(lost)}
    counts["waiting"] = max(0, plan.world_size - sum(counts.values()))
    of_run = [plan.restart, board.started_at, None, None, None]
    if (extremes := board.extremes()) is not None:
        slowest, furthest = extremes
        of_run[2:] = slowest.step, furthest.step, board.pace.rate(slowest.rank, now)
    sample: dict[str, dict[tuple[str, ...], float | None]] = {
        "run_ranks": {(run, state): count for state, count in counts.items()},
        **{name: {(run,): value} for name, value in zip(OF_RUN, of_run, strict=True)},
    }
    for node in plan.nodes:
        host = node.host.name
        labels = (run, visible_line(host)[:LONGEST_LABEL])
        sample.setdefault("node_up", {})[labels] = host in heard and host not in board.lost
        sample.setdefault(LAST_ANSWER, {})[labels] = heard.get(host)
    return sample


def ends_of_no_attempt() -> dict[tuple[str, str], int]:
    """Return each status and kind of `class_of_end` with 0: an increase is seen only from a value before it."""
    others = [(status.value, "") for status in Status if status is not Status.FAILED]
    return dict.fromkeys([*others, *((Status.FAILED.value, kind) for kind in (*KINDS, HANG, UNKNOWN))], 0)


def class_of_end(outcome: Outcome) -> tuple[str, str]:
    """Return the status of an end, and for a failure the kind of its first cause, else ""."""
    if outcome.status is not Status.FAILED:
        return outcome.status.value, ""
    kind = HANG if outcome.is_hang else outcome.causes[0].kind if outcome.causes else UNKNOWN
    return outcome.status.value, kind if kind in (*KINDS, HANG) else UNKNOWN


class LiveSamples:
    """The latest sample of each live run, and the attempts that have ended since this value was made."""

    def __init__(self, every_s: float) -> None:
        self._runs = LiveRuns[Sampler](lambda plan, before: Sampler(plan, every_s, before))
        self.ends: Mapping[tuple[str, str], int] = ends_of_no_attempt()
        """Attempts that have ended, by status and kind of cause."""

        self.refreshed_at = 0.0
        self.close = self._runs.close

    def samples(self) -> list[Sample]:
        """Return the latest sample of each live run. Waits for no node."""
        return [each.sample for each in self._runs.onlookers if each.sample is not None]

    def refresh(self) -> None:
        """Read the records that may have changed, and watch the runs that are live."""
        ends = Counter(self.ends)
        ends.update(class_of_end(record.outcome) for record in self._runs.refresh() if record.outcome is not None)
        self.ends, self.refreshed_at = ends, time.time()


class Sampler:
    """An onlooker of a run that samples its model; it has the sample before until it has its own."""

    def __init__(self, plan: RunPlan, every_s: float, before: "Sampler | None" = None) -> None:
        self._board = Board(plan)
        self._heard: dict[str, float] = {}
        self.usage_every_s = every_s
        self.sample: Sample | None = None if before is None else before.sample

    def show(self, event: RunEvent) -> None:
        """Update the model with an event of a node."""
        self._board.add(event)
        is_lost = isinstance(event, Event) and event.kind is EventKind.CONTACT_LOST
        if isinstance(event, Event | LinesWritten | UsageReported) and event.host is not None and not is_lost:
            self._heard[event.host] = time.monotonic()

    def look(self) -> None:
        """Keep a sample."""
        self.sample = sample_of(self._board, self._heard, steady_clock.now())

    def lose_all(self) -> None:
        """Keep a sample without an answer of any node."""
        self._board.lose_all()
        self.look()
