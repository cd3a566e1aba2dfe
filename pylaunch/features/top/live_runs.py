"""Find the live runs, and follow each in a thread of its own until it is over, as `pylaunch status --watch` does."""

import threading
import time
from functools import partial

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import PylaunchError
from pylaunch.features.top.rows import LiveRun
from pylaunch.model.cluster import Cluster
from pylaunch.model.plan import RunPlan, base_of
from pylaunch.runs import steady_clock
from pylaunch.runs.all_runs import adopt_runs, discover_runs
from pylaunch.runs.connect.interruptible import Interrupter
from pylaunch.runs.follow.run_events import RunEvent
from pylaunch.runs.status import is_settled, previous_attempt, statuses, watch_run
from pylaunch.store import runs
from pylaunch.terminal.views.board import Board

LIST_S = 3.0
"""Interval at which the records on this machine are read, for further runs and findings of the hang watcher."""

DISCOVER_S = 30.0
"""Interval at which the hosts of an inventory report runs of other machines."""

AGAIN_S = 5.0
"""Between two attempts to follow a run none of whose nodes can be asked."""

ENDS_S = 3.0


@dataclass
class RunListener:
    """A `runs.existing.watch.Onlooker`."""

    run: LiveRun
    lock: threading.RLock
    usage_every_s: float = 2.0

    def show(self, event: RunEvent) -> None:
        """Update the state of the run."""
        with self.lock:
            self.run.take(event, steady_clock.now())

    def look(self) -> None:
        """Show nothing: the screen reads the state."""


class FollowedRuns:
    """Runs by id: the live ones, and with their outcome those that have ended meanwhile."""

    def __init__(self, cluster: Cluster | None) -> None:
        """With `cluster` only runs of its inventory, and those that its hosts know."""
        self.lock = threading.RLock()
        self.by_id: dict[str, LiveRun] = {}
        self.notice = ""
        """Hosts that did not report their runs, or a damaged record."""

        self._cluster = cluster
        self._found: frozenset[str] = frozenset()
        self._over: set[str] = set()
        self._is_ending = threading.Event()
        self._interrupters: list[Interrupter] = []
        self._threads = [threading.Thread(target=self._list, name="list of runs", daemon=True)]

    def __enter__(self) -> "FollowedRuns":
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ending.set()
        for interrupter in self._interrupters:
            interrupter.interrupt("pylaunch top ends")
        until = time.monotonic() + ENDS_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _list(self) -> None:
        discovered_at = float("-inf")
        while not self._is_ending.is_set():
            try:
                if self._cluster is not None and time.monotonic() - discovered_at >= DISCOVER_S:
                    discovered_at = time.monotonic()
                    self._discover(self._cluster)
                last: dict[str, str] = {}
                for run in runs.ids():  # The newest first.
                    last.setdefault(base_of(run), run)
                for run in last.values():
                    self._see(run)
            except PylaunchError as error:  # A damaged record, or one that was forgotten meanwhile.
                self.notice = error.message
            except OSError as error:  # No room for the record of a run of another machine, for example.
                self.notice = f"further runs cannot be listed: {error}"
            self._is_ending.wait(LIST_S)

    def _discover(self, cluster: Cluster) -> None:
        found = discover_runs(cluster)
        adopt_runs(found, past=False)
        self._found |= found.live
        self.notice = "; ".join([*(f"{host}: {why}" for host, why in found.silent.items()), *found.notes])

    def _see(self, run: str) -> None:
        """Follow a run, the last attempt of its id, if it may be live and is not followed. Raises UsageError."""
        if run in self._over:
            return
        self._over.add(run)  # Also if its record is damaged.
        record, base = runs.read(run), base_of(run)
        if record.outcome is not None and is_settled(record):
            return
        self._over.discard(run)
        if self._cluster is not None and record.plan.sources != self._cluster.sources and run not in self._found:
            return
        known = self.by_id.get(base)
        if known is not None and known.record.outcome is None:
            if known.record.plan.run == run:
                known.record = record  # With further findings.
            return
        with self.lock:
            self.by_id[base] = LiveRun(record, Board(record.plan))
        self._interrupters.append(Interrupter())
        words = (base, self._interrupters[-1])
        self._threads.append(threading.Thread(target=self._watch, args=words, name=f"watch of {base}", daemon=True))
        self._threads[-1].start()

    def _watch(self, base: str, interrupter: Interrupter) -> None:
        """Follow the attempts of a run to the end of the last one, which is recorded if all of its nodes report it."""
        while not self._is_ending.is_set():
            try:
                last = watch_run(runs.read(runs.find(base)), partial(self._listener, base), interrupter)
                if last is None or statuses([last])[0].outcome is not None:
                    self.by_id[base].record = runs.read(runs.find(base))
                    return
            except PylaunchError as error:
                self.by_id[base].trouble = "; ".join([error.message, *error.evidence[:1]])
            except BaseException as error:  # A bug: the thread prints its trace.
                self.by_id[base].trouble = f"{type(error).__name__}: {error}"
                raise
            self._is_ending.wait(AGAIN_S)

    def _listener(self, base: str, plan: RunPlan) -> RunListener:
        """Begin again with an attempt of a run. A reason why no node can be asked stays until one has answered."""
        run = LiveRun(runs.read(plan.run), Board(plan, previous_attempt(plan)), trouble=self.by_id[base].trouble)
        with self.lock:
            self.by_id[base] = run
        return RunListener(run, self.lock)
