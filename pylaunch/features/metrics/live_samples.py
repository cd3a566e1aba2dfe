"""Samples of the live runs that are recorded on this machine, and the number of attempts that have ended."""

import time
from collections import Counter
from collections.abc import Mapping

from pylaunch.features.metrics.samples import Sample, class_of_end, ends_of_no_attempt, sample_of
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind
from pylaunch.runs import steady_clock
from pylaunch.runs.events import LinesWritten, RunEvent, UsageReported
from pylaunch.runs.watch import LiveRuns
from pylaunch.terminal.views.board import Board


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
    """A `runs.live_runs.RunOnlooker` that samples a board; it has the sample before until it has its own."""

    def __init__(self, plan: RunPlan, every_s: float, before: "Sampler | None" = None) -> None:
        self._board = Board(plan)
        self._heard: dict[str, float] = {}
        self._clocks: dict[str, float] = {}
        self.usage_every_s = every_s
        self.sample: Sample | None = None if before is None else before.sample

    def show(self, event: RunEvent) -> None:
        """Update the board with an event of a node."""
        match event:
            case Event():
                self._board.on(event)
                if event.host is not None and event.kind is not EventKind.CONTACT_LOST:
                    self._heard[event.host] = time.monotonic()
            case LinesWritten():
                self._board.wrote(event.stream, event.text, event.time)
                self._heard[event.host] = time.monotonic()
            case UsageReported():
                self._board.read(event.host, event.usage)
                if event.clock_offset is not None:
                    set_since_s = time.time() - steady_clock.now()
                    self._clocks[event.host] = event.clock_offset - set_since_s
                self._heard[event.host] = time.monotonic()
            case _:
                pass

    def look(self) -> None:
        """Keep a sample."""
        self.sample = sample_of(self._board, self._heard, self._clocks, steady_clock.now())

    def lose_all(self) -> None:
        """Keep a sample without an answer of any node."""
        self._board.lost.update(self._board.plan.cluster.names)
        self.look()
