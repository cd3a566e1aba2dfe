"""Watchers of all live runs of this machine, a thread for each."""

import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from pylaunch.errors import PylaunchError, UsageError
from pylaunch.model.plan import RunPlan, base_of
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.interruptible import Interrupter
from pylaunch.runs.watch import Onlooker, watch_run
from pylaunch.store import runs

MOST_RUNS = 64
"""Runs that are watched at the same time."""

ENDS_S = 5.0
"""Time to wait for a watcher that was interrupted."""


class RunOnlooker(Onlooker, Protocol):
    """An onlooker of one run. Only the thread of its watcher calls it."""

    def lose_all(self) -> None:
        """Note that no node can be reached."""


O = TypeVar("O", bound=RunOnlooker)  # noqa: E741


class LiveRuns(Generic[O]):
    """Watchers of the live runs. `onlooker_of` makes the onlooker of an attempt; it gets the one before of the run."""

    def __init__(self, onlooker_of: Callable[[RunPlan, O | None], O]) -> None:
        self._onlooker_of = onlooker_of
        self._since = time.time()
        self._watchers: dict[str, _RunWatcher[O]] = {}
        self._ended: set[str] = set()
        """Recorded attempts whose outcome is known."""

        self._over: set[str] = set()
        """Attempts that are over, as their nodes report."""

    @property
    def onlookers(self) -> list[O]:
        """The onlooker of each live run. Waits for no node."""
        return [watcher.onlooker for watcher in self._watchers.values() if watcher.onlooker is not None]

    @property
    def is_watching(self) -> bool:
        """At least one run was live at the last refresh."""
        return bool(self._watchers)

    def refresh(self) -> list[RunRecord]:
        """Read the records that may have changed, and watch the runs that are live.

        Returns the attempts that have ended since this value was made, each once.
        """
        for watcher in self._watchers.values():
            self._over |= watcher.over
        there = runs.ids()
        self._ended &= {*there}
        self._over &= {*there}
        ends, live = list[RunRecord](), dict[str, RunRecord]()
        for attempt in there:
            if attempt in self._ended:
                continue
            try:
                record = runs.read(attempt)
            except UsageError:
                continue  # Damaged, or forgotten meanwhile: `ps` reports it.
            if record.outcome is not None:
                self._ended.add(attempt)
                ends += [record] if record.outcome.ended_at >= self._since else []
            elif attempt not in self._over:
                live.setdefault(base_of(attempt), record)
        going = {run: watcher for run, watcher in self._watchers.items() if watcher.is_alive()}
        for run, record in live.items():
            if run not in going and len(going) < MOST_RUNS:
                before = self._watchers.get(run)
                going[run] = _RunWatcher(record, self._onlooker_of, None if before is None else before.onlooker)
                going[run].start()
        self._watchers = going
        return ends

    def close(self) -> None:
        """End all watchers."""
        for watcher in self._watchers.values():
            watcher.interrupter.interrupt("interrupted")
        until = time.monotonic() + ENDS_S
        for watcher in self._watchers.values():
            watcher.join(max(0.0, until - time.monotonic()))


class _RunWatcher(threading.Thread, Generic[O]):
    """Watches one run and the attempts after it."""

    def __init__(self, record: RunRecord, onlooker_of: Callable[[RunPlan, O | None], O], before: O | None) -> None:
        super().__init__(name=f"watch {record.plan.run}", daemon=True)
        self._record = record
        self._new = onlooker_of
        self.onlooker = before
        self.interrupter = Interrupter()
        self.over: frozenset[str] = frozenset()
        """Attempt that is over, as its nodes report."""

    def run(self) -> None:
        """Watch until the run is over, or no node can be reached; then `LiveRuns.refresh` begins again."""
        try:
            last = watch_run(self._record, self._onlooker_of, self.interrupter)
        except PylaunchError:
            if self.onlooker is not None:
                self.onlooker.lose_all()
        else:
            self.over = frozenset() if last is None else frozenset([last.plan.run])

    def _onlooker_of(self, plan: RunPlan) -> O:
        self.onlooker = self._new(plan, self.onlooker)
        return self.onlooker
