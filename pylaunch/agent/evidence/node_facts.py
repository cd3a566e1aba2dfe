"""Facts of this node that explain a failure, collected when the node begins to stop.

The collection runs in a thread, because a driver or a file system that hangs can hold up a read: the agent waits for
the connections of the ranks, at most SOCKETS_S, and for the rest never.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from typing import Mapping

from pylaunch.agent import wire
from pylaunch.agent.evidence import counters, rank_sockets
from pylaunch.agent.evidence.kernel_messages import KernelLog
from pylaunch.agent.evidence.out_of_memory import memory_cgroups
from pylaunch.agent.shared import cgroups, interfaces
from pylaunch.agent.shared.text import text_of

BUDGET_S = 0.5
SOCKETS_S = 0.15
"""Time for the connections of the ranks, which must be read before the ranks are ended."""

LEAST_STEP_S = 0.2
"""A smaller difference between the node's clock and its steady clock is what NTP corrects all the time."""

MOST_RISES = 64
MOST_ADDRESSES = 32


class NodeFacts:
    """Collector of one run on this node. Its methods are called by the agent's one thread."""

    def __init__(self, kernel: KernelLog) -> None:
        self._kernel = kernel
        self._clock = _clock()
        self._cgroup = next(iter(memory_cgroups(text_of("/proc/self/cgroup"), cgroups.CGROUPS)), None)
        self._baseline: dict[str, int] = {}
        self._began: float | None = None
        self._time = 0.0
        self._result = wire.NodeEvidence(0.0, 0.0)
        self._has_sockets = threading.Event()
        self._is_complete = threading.Event()
        self._ranks: dict[int, int] = {}
        self._is_reported = False
        self._done = os.pipe()
        threading.Thread(target=self._read_baseline, daemon=True).start()

    @property
    def done(self) -> int:
        """Descriptor that is readable when the collection is complete."""
        return self._done[0]

    def know(self, rank: int, pid: int) -> None:
        """Remember the process of `rank`, by which kernel messages are assigned to it."""
        self._ranks[pid] = rank

    def collect(self, pids: Mapping[int, int | None]) -> None:
        """Begin the collection, once; return when the connections of `pids` (process id → rank) are read."""
        if self._began is not None:
            return
        self._began, self._time = time.monotonic(), time.time()
        threading.Thread(target=self._collect, args=(dict(pids), self._began), daemon=True).start()
        self._has_sockets.wait(SOCKETS_S)

    def evidence(self, *, wait: bool) -> wire.NodeEvidence | None:
        """Return the facts, once; None if nothing was collected, or the collection is not complete.

        With `wait`, wait for the rest of BUDGET_S, and return what is known then.
        """
        if self._began is None or self._is_reported:
            return None
        if wait:
            self._is_complete.wait(max(0.0, self._began + BUDGET_S - time.monotonic()))
        elif not self._is_complete.is_set():
            return None
        self._is_reported = True
        found, missing = self._result, []
        if not self._is_complete.is_set():
            missing.append(f"not all facts of the node could be read within {BUDGET_S:g} s")
        self._kernel.read()
        if self._kernel.missing:
            missing.append(self._kernel.missing)
        step_s = _clock() - self._clock
        return wire.NodeEvidence(
            self._time, time.monotonic() - self._began, self._messages(), found.sockets, found.connections,
            found.addresses, found.rises, found.gauges, round(step_s, 3) if abs(step_s) >= LEAST_STEP_S else 0.0,
            [*found.missing, *missing],
        )  # fmt: skip

    def _messages(self) -> list[wire.KernelMessage]:
        return [
            message if message.pid is None else replace(message, rank=self._ranks.get(message.pid))
            for message in self._kernel.messages
        ]

    def _read_baseline(self) -> None:
        self._baseline, _ = counters.read(self._cgroup, time.monotonic() + BUDGET_S)

    def _collect(self, pids: dict[int, int | None], began: float) -> None:
        until = began + BUDGET_S
        found, count, missing = rank_sockets.troubled(pids, min(until, began + SOCKETS_S))
        self._result = wire.NodeEvidence(0.0, 0.0, [], found, count, missing=[missing] if missing else [])
        self._has_sockets.set()
        addresses = [each for each, name in _addresses().items() if name != interfaces.LOOPBACK]
        now, late = counters.read(self._cgroup, until)
        rises = dict(sorted(counters.rises(self._baseline, now).items())[:MOST_RISES])
        self._result = wire.NodeEvidence(
            0.0, 0.0, [], found, count, addresses[:MOST_ADDRESSES], rises, counters.gauges(),
            missing=[each for each in (missing, late) if each],
        )  # fmt: skip
        self._is_complete.set()
        os.write(self._done[1], b"1")


def _addresses() -> Mapping[str, str]:
    try:
        return interfaces.address_owners()
    except OSError:
        return {}


def _clock() -> float:
    """Return the node's clock minus its steady clock, which nobody can set."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
