"""Faults that a lab injects into a node while the ranks of a drill run there."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.drill.catalogue import NodeFault
from lab.node_faults import faults
from lab.node_faults.faults import Fault
from lab.node_faults.resource_faults import LittleMemory, Stall
from lab.nodes.machine import Machine
from lab.nodes.node import LabNode
from pylaunch.errors import LabError

STALLED = "/mnt/pylaunch-drill"
"""Directory whose file system does not answer."""

MEMORY = 512 << 20


class AgentKilled:
    """The agent of a run is killed."""

    def __init__(self, run: str) -> None:
        self._lock = f"/runs/{run}/agent.lock"

    def inject(self, node: Machine) -> None:
        """Kill the process that holds the agent's lock."""
        found = [process for process in node.cgroup.processes() if self._holds(process)]
        if len(found) != 1:
            raise LabError(f"{node.name}: {len(found)} processes hold {self._lock}, expected the agent alone")
        os.kill(found[0], signal.SIGKILL)

    def undo(self, node: Machine) -> None:
        """Do nothing: the run is over."""

    def _holds(self, process: int) -> bool:
        with contextlib.suppress(OSError):
            return any(str(fd.readlink()).endswith(self._lock) for fd in Path(f"/proc/{process}/fd").iterdir())
        return False


_FAULTS: dict[NodeFault, Callable[[str], Fault]] = {
    NodeFault.POWER: lambda run: faults.Kill(),
    NodeFault.CABLE: lambda run: faults.Cut(),
    NodeFault.FREEZE: lambda run: faults.Freeze(),
    NodeFault.AGENT: AgentKilled,
    NodeFault.MEMORY: lambda run: LittleMemory(MEMORY),
    NodeFault.NETWORK: lambda run: faults.Isolate(),
    NodeFault.STORAGE: lambda run: Stall(STALLED),
}

_BEFORE = frozenset({NodeFault.STORAGE})
"""Faults that exist before the run."""


class NodeFaultInjector:
    """Injects one fault into one node, at the moment that suits it, and undoes it."""

    def __init__(self, fault: NodeFault, node: LabNode) -> None:
        self._fault = fault
        self._node = node
        self._injected: Fault | None = None

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Inject before the block what must exist before the run, and undo the fault after it in any case."""
        if self._fault in _BEFORE:
            self._inject("")
        try:
            yield
        finally:
            if self._injected is not None:
                self._injected.undo(self._node)

    def ready(self, run: str) -> None:
        """Inject the fault into the node on which all ranks of `run` train."""
        if self._injected is None:
            self._inject(run)

    def _inject(self, run: str) -> None:
        made = _FAULTS[self._fault](run)
        self._injected = made
        made.inject(self._node)
