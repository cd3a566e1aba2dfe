"""Facts of this node that explain a failure or a hang, collected when the node begins to stop and on request.

A collection runs in a thread, because a driver or a file system that hangs can hold up a read: the agent waits for the
connections of the ranks before a stop, at most SOCKETS_S, and for the rest never. Requests share one collection, so at
most two threads wait for a driver: one for requests, one for the stop. nvidia-smi, the slowest, is asked last.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping

from pylaunch import protocol
from pylaunch.agent.evidence import counters
from pylaunch.agent.evidence.gpu_counters import GpuCounters, GpuReader
from pylaunch.agent.evidence.kernel_messages import KernelLog
from pylaunch.agent.evidence.out_of_memory import memory_cgroups
from pylaunch.agent.evidence.ranks import rank_sockets
from pylaunch.agent.shared import cgroups
from pylaunch.agent.shared.sockets import interfaces
from pylaunch.agent.shared.text import text_of
from pylaunch.base.dataclass import replace

BUDGET_S = 0.5
"""Time for all facts at a stop; a request brings its own."""

SOCKETS_S = 0.15
"""Time for the connections of the ranks, which must be read before the ranks are ended."""

GPUS_S = 5.0
"""Time for nvidia-smi, which nobody waits for: without persistence mode, it initializes all devices."""

LEAST_STEP_S = 0.2
"""A smaller difference between the node's clock and its steady clock is what NTP corrects all the time."""

MOST_RISES = 64
MOST_ADDRESSES = 32
NOTHING = protocol.HostEvidence("", 0.0, 0.0)


class Collection:
    """Facts that take time to read, collected in a thread within `budget_s` by the readers of `facts`."""

    def __init__(self, facts: NodeFacts, pids: Mapping[int, int | None], sockets_s: float, budget_s: float) -> None:
        self.sockets_s, self.budget_s = sockets_s, budget_s
        self.began, self.time = time.monotonic(), time.time()
        self.result = NOTHING
        """Facts so far."""

        self.has_sockets = threading.Event()
        self.is_complete = threading.Event()
        self.awaits = "connections"
        """Facts that are being read."""

        self._facts = facts
        self._pids = dict(pids)
        threading.Thread(target=self._collect, daemon=True).start()

    @property
    def ends_at(self) -> float:
        """Monotonic time from which on nobody waits for the rest."""
        return self.began + self.budget_s

    def is_over(self, now: float) -> bool:
        """Return True if the collection is complete, or its time is over."""
        return self.is_complete.is_set() or now >= self.ends_at

    def _collect(self) -> None:
        found, count, missing = self._facts.sockets(self._pids, self.began + self.sockets_s)
        self.result = replace(NOTHING, stuck=found, connections=count, missing=(missing,) if missing else ())
        self.has_sockets.set()
        self.awaits = "counters"
        addresses = [each for each, name in _addresses().items() if name != interfaces.LOOPBACK]
        rises, late = self._facts.counted(self.ends_at)
        self.result = replace(
            self.result, addresses=tuple(addresses[:MOST_ADDRESSES]), rises=rises, gauges=counters.gauges(),
            missing=tuple(filter(None, (missing, late))),
        )  # fmt: skip
        self.awaits = "GPUs"
        gpus = self._facts.counted_on_gpus(max(self.ends_at, self.began + GPUS_S))
        self.result = replace(
            self.result, rises={**rises, **gpus.counters}, gauges={**self.result.gauges, **gpus.gauges},
            missing=tuple(filter(None, (*self.result.missing, gpus.missing))),
        )  # fmt: skip
        self.is_complete.set()
        self._facts.wake()


class NodeFacts:
    """Collector of one run on this node. Its methods are called by the agent's one thread."""

    def __init__(self, kernel: KernelLog) -> None:
        self._kernel = kernel
        self._clock = _clock()
        self._cgroup = next(iter(memory_cgroups(text_of("/proc/self/cgroup"), cgroups.CGROUPS)), None)
        self._gpus = GpuReader()
        self._earlier = rank_sockets.existing(time.monotonic() + SOCKETS_S)
        """Connections that existed before the ranks of this run."""

        self._baseline: dict[str, int] = {}
        self._gpu_baseline: dict[str, int] = {}
        self._at_stop: Collection | None = None
        self._on_request: Collection | None = None
        self._ranks: dict[int, int] = {}
        self._is_reported = False
        self._done = os.pipe()
        for descriptor in self._done:
            os.set_blocking(descriptor, False)
        threading.Thread(target=self._read_baseline, daemon=True).start()

    @property
    def done(self) -> int:
        """Descriptor that is readable when a collection is complete, until `acknowledge`."""
        return self._done[0]

    def acknowledge(self) -> None:
        """Make `done` unreadable until the next collection is complete."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._done[0], 4096)

    def know(self, rank: int, pid: int) -> None:
        """Remember the process of `rank`, by which kernel messages are assigned to it."""
        self._ranks[pid] = rank

    def collect(self, pids: Mapping[int, int | None]) -> None:
        """Begin the collection of the stop, once; return when the connections of `pids` (process → rank) are read."""
        if self._at_stop is None:
            self._at_stop = Collection(self, pids, SOCKETS_S, BUDGET_S)
            self._at_stop.has_sockets.wait(SOCKETS_S)

    def requested(self, pids: Mapping[int, int | None], within_s: float) -> Collection:
        """Return the collection for a request: a new one, unless the thread of the last one still reads."""
        if self._on_request is None or self._on_request.is_complete.is_set():
            self._on_request = Collection(self, pids, within_s, within_s)
        return self._on_request

    def evidence(self, *, wait: bool) -> protocol.HostEvidence | None:
        """Return the facts at the stop, once; None if nothing was collected, or the collection is not complete.

        With `wait`, wait for the rest of BUDGET_S, and return what is known then.
        """
        collection = self._at_stop
        if collection is None or self._is_reported:
            return None
        if wait:
            collection.is_complete.wait(max(0.0, collection.ends_at - time.monotonic()))
        elif not collection.is_complete.is_set():
            return None
        self._is_reported = True
        return self.known(collection)

    def known(self, collection: Collection, serial: int = protocol.UNASKED) -> protocol.HostEvidence:
        """Return the facts of `collection` so far, with the kernel messages until now."""
        found, at, missing = collection.result, collection.time, []
        if not collection.is_complete.is_set():
            missing.append(f"{collection.awaits}: not all could be read within {collection.budget_s:g} s")
            took_s = time.monotonic() - collection.began
            if serial != protocol.UNASKED and took_s > 2 * collection.budget_s:
                # Begun for an earlier request: its connections are of that time.
                found, at = NOTHING, time.time()
                missing = [f"counters and connections: a read that began {took_s:.0f} s ago has not ended"]
        self._kernel.read()
        if self._kernel.missing:
            missing.append(self._kernel.missing)
        step_s = _clock() - self._clock
        return replace(
            found, time=at, seconds=time.monotonic() - collection.began, kernel=self._messages(),
            clock_step_s=round(step_s, 3) if abs(step_s) >= LEAST_STEP_S else 0.0,
            missing=(*found.missing, *missing), serial=serial,
        )  # fmt: skip

    def sockets(
        self, pids: Mapping[int, int | None], until: float
    ) -> tuple[tuple[protocol.StuckConnection, ...], int, str]:
        """Return the connections of ranks without progress. A thread of `Collection` calls this and the next three."""
        return rank_sockets.troubled(pids, until, self._earlier)

    def wake(self) -> None:
        """Make `done` readable."""
        with contextlib.suppress(BlockingIOError):  # Full: the agent has not read the earlier ones.
            os.write(self._done[1], b"1")

    def counted(self, until: float) -> tuple[dict[str, int], str]:
        """Return the counters that rose since the preparation, and a reason if some were not read."""
        now, late = counters.read(self._cgroup, until)
        return dict(sorted(counters.rises(self._baseline, now).items())[:MOST_RISES]), late

    def counted_on_gpus(self, until: float) -> GpuCounters:
        """Return the errors of the GPUs since the preparation, and their load."""
        now = self._gpus.read(until)
        return replace(now, counters=counters.rises(self._gpu_baseline, now.counters))

    def _messages(self) -> tuple[protocol.KernelEvent, ...]:
        messages = self._kernel.messages
        return tuple([replace(each, rank=None if each.pid is None else self._ranks.get(each.pid)) for each in messages])

    def _read_baseline(self) -> None:
        self._baseline, _ = counters.read(self._cgroup, time.monotonic() + BUDGET_S)
        self._gpu_baseline = self._gpus.read(time.monotonic() + GPUS_S).counters


def _addresses() -> Mapping[str, str]:
    try:
        return interfaces.address_owners()
    except OSError:
        return {}


def _clock() -> float:
    """Return the node's clock minus its steady clock, which nobody can set."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
