"""Facts of this node that explain a failure or a hang: kernel messages, connections without progress, clock steps."""

from __future__ import annotations

import time
from collections.abc import Mapping

from pylaunch import protocol
from pylaunch.agent.evidence.kernel_messages import KernelLog
from pylaunch.agent.evidence.ranks import rank_sockets
from pylaunch.agent.shared.sockets import interfaces
from pylaunch.base.dataclass import replace

SOCKETS_S = 0.15
"""Time for the connections of the ranks, in which the agent does nothing else."""

LEAST_STEP_S = 0.2
"""A smaller difference between the node's clock and its steady clock is what NTP corrects all the time."""

MOST_ADDRESSES = 32


class NodeFacts:
    """Reader of the facts for one run on this node."""

    def __init__(self, kernel: KernelLog) -> None:
        self._kernel = kernel
        self._clock = _clock()
        self._earlier = rank_sockets.existing(time.monotonic() + SOCKETS_S)
        """Connections that existed before the ranks of this run."""

        self._at_stop: protocol.HostEvidence | None = None
        self._is_reported = False
        self._ranks: dict[int, int] = {}

    def know(self, rank: int, pid: int) -> None:
        """Remember the process of `rank`, by which kernel messages are assigned to it."""
        self._ranks[pid] = rank

    def collect(self, pids: Mapping[int, int | None]) -> None:
        """Read the facts of the stop, once, before the ranks are ended. `pids`: process id → rank."""
        if self._at_stop is None:
            self._at_stop = self.read(pids)

    def at_stop(self) -> protocol.HostEvidence | None:
        """Return the facts of the stop with the kernel messages until now, once; None if nothing was collected."""
        if self._at_stop is None or self._is_reported:
            return None
        self._is_reported = True
        return self._with_kernel(self._at_stop)

    def read(self, pids: Mapping[int, int | None], serial: int = protocol.UNASKED) -> protocol.HostEvidence:
        """Return the facts now, for the request `serial`."""
        began, now = time.monotonic(), time.time()
        stuck, count, missing = rank_sockets.troubled(pids, began + SOCKETS_S, self._earlier)
        addresses = [each for each, name in _addresses().items() if name != interfaces.LOOPBACK]
        step_s = _clock() - self._clock
        found = protocol.HostEvidence(
            "", now, 0.0, stuck=stuck, connections=count, addresses=tuple(addresses[:MOST_ADDRESSES]),
            clock_step_s=round(step_s, 3) if abs(step_s) >= LEAST_STEP_S else 0.0,
            missing=(missing,) if missing else (), seconds=time.monotonic() - began, serial=serial,
        )  # fmt: skip
        return self._with_kernel(found)

    def _with_kernel(self, found: protocol.HostEvidence) -> protocol.HostEvidence:
        self._kernel.read()
        messages = [
            replace(each, rank=None if each.pid is None else self._ranks.get(each.pid))
            for each in self._kernel.messages
        ]
        missing = [each for each in (*found.missing, self._kernel.missing) if each]
        return replace(found, kernel=tuple(messages), missing=tuple(dict.fromkeys(missing)))


def _addresses() -> Mapping[str, str]:
    try:
        return interfaces.address_owners()
    except OSError:
        return {}


def _clock() -> float:
    """Return the node's clock minus its steady clock, which nobody can set."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
