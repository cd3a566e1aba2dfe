"""A node of a lab: its container and its faults."""

from lab.node_faults import faults
from lab.node_faults.faults import Direction, Injected
from lab.nodes.machine import Machine
from pylaunch.base.dataclass import dataclass


@dataclass(frozen=True)
class LabNode(Machine):
    """A node. Every fault takes effect at once; `undo()` or the end of `with` removes it."""

    def cut(self) -> Injected:
        """Pull the network cable."""
        return faults.inject(self, faults.Cut())

    def filter(self, port: int, direction: Direction = Direction.BOTH) -> Injected:
        """Drop TCP packets to `port`: incoming, outgoing, or both."""
        return faults.inject(self, faults.Filter(port, direction))

    def kill(self) -> Injected:
        """Switch the node off, as at power loss."""
        return faults.inject(self, faults.Kill())

    def freeze(self) -> Injected:
        """Stop every process of the node."""
        return faults.inject(self, faults.Freeze())

    def fill(self, path: str = "/var/tmp") -> Injected:
        """Fill the directory `path`."""
        return faults.inject(self, faults.Fill(path))

    def occupy(self, port: int) -> Injected:
        """Start a process in the node that listens on TCP `port`."""
        return faults.inject(self, faults.Occupy(port))

    def shift_clock(self, seconds: float) -> Injected:
        """Shift the time for programs that start from now on."""
        return faults.inject(self, faults.Clock(seconds))
