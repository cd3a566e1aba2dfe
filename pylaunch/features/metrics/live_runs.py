"""Watch the live runs that are recorded on this machine, each in a thread. Nothing is stopped or recorded."""

import threading
import time
from collections import Counter
from collections.abc import Mapping

from pylaunch.errors import PylaunchError, UsageError
from pylaunch.features.metrics.samples import Sample, class_of_end, ends_of_no_attempt, sample_of
from pylaunch.model.plan import RunPlan, base_of
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.runs import steady_clock
from pylaunch.runs.connect.interruptible import Interrupter
from pylaunch.runs.follow.run_events import LinesWritten, RunEvent, UsageReported
from pylaunch.runs.status import watch_run
from pylaunch.store import runs
from pylaunch.terminal.views.board import Board

MOST_RUNS = 64
"""Runs that are watched at the same time."""

ENDS_S = 5.0
"""Time to wait for a watcher that was interrupted."""


class LiveRuns:
    """Watchers of the live runs, and the number of attempts that have ended since this value was made."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._since = time.time()
        self._watchers: dict[str, _RunWatcher] = {}
        self._ended: set[str] = set()
        """Recorded attempts whose outcome is known."""

        self._over: set[str] = set()
        """Attempts that are over, as their nodes report."""

        self.ends: Mapping[tuple[str, str], int] = ends_of_no_attempt()
        """Attempts that have ended, by status and kind of cause."""

        self.refreshed_at = 0.0

    def samples(self) -> list[Sample]:
        """Return the latest sample of each live run. Waits for no node."""
        return [watcher.sample for watcher in self._watchers.values() if watcher.sample is not None]

    def refresh(self) -> None:
        """Read the records that may have changed, and watch the runs that are live."""
        for watcher in self._watchers.values():
            self._over |= watcher.over
        there = runs.ids()
        self._ended &= {*there}
        self._over &= {*there}
        ends, live = Counter(self.ends), dict[str, RunRecord]()
        for attempt in there:
            if attempt in self._ended:
                continue
            try:
                record = runs.read(attempt)
            except UsageError:
                continue  # Damaged, or forgotten meanwhile: `ps` reports it.
            if record.outcome is not None:
                self._ended.add(attempt)
                ends.update([class_of_end(record.outcome)] if record.outcome.ended_at >= self._since else [])
            elif attempt not in self._over:
                live.setdefault(base_of(attempt), record)
        going = {run: watcher for run, watcher in self._watchers.items() if watcher.is_alive()}
        for run, record in live.items():
            if run not in going and len(going) < MOST_RUNS:
                going[run] = _RunWatcher(record, self._every_s, self._watchers.get(run))
                going[run].start()
        self._watchers, self.ends, self.refreshed_at = going, ends, time.time()

    def close(self) -> None:
        """End all watchers."""
        for watcher in self._watchers.values():
            watcher.interrupter.interrupt("interrupted")
        until = time.monotonic() + ENDS_S
        for watcher in self._watchers.values():
            watcher.join(max(0.0, until - time.monotonic()))


class _RunWatcher(threading.Thread):
    """Watches one run and the attempts after it, and keeps its latest sample."""

    def __init__(self, record: RunRecord, every_s: float, before: "_RunWatcher | None") -> None:
        super().__init__(name=f"watch {record.plan.run}", daemon=True)
        self._record = record
        self._every_s = every_s
        self._onlooker: _Onlooker | None = None
        self._before = None if before is None else before.sample
        self.interrupter = Interrupter()
        self.over: frozenset[str] = frozenset()
        """Attempt that is over, as its nodes report."""

    @property
    def sample(self) -> Sample | None:
        """Return the latest sample; that of the watcher before until this one has its own."""
        return self._before if self._onlooker is None or self._onlooker.sample is None else self._onlooker.sample

    def run(self) -> None:
        """Watch until the run is over, or no node can be reached; then `LiveRuns.refresh` begins again."""
        try:
            last = watch_run(self._record, self._onlooker_of, self.interrupter)
        except PylaunchError:
            if self._onlooker is not None:
                self._onlooker.lose_all()
        else:
            self.over = frozenset() if last is None else frozenset([last.plan.run])

    def _onlooker_of(self, plan: RunPlan) -> "_Onlooker":
        self._onlooker = _Onlooker(plan, self._every_s)
        return self._onlooker


class _Onlooker:
    """A `runs.existing.watch.Onlooker` that samples a board. Only the thread of the watcher changes the board."""

    def __init__(self, plan: RunPlan, every_s: float) -> None:
        self._board = Board(plan)
        self._heard: dict[str, float] = {}
        self._clocks: dict[str, float] = {}
        self.usage_every_s = every_s
        self.sample: Sample | None = None

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
