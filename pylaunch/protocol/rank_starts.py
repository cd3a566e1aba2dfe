"""Messages about the start of the ranks of a node, from the preload to their first line."""

from __future__ import annotations

from pylaunch.base.dataclass import dataclass


@dataclass(frozen=True)
class Preloaded:
    """End of the preload that the task requests: the ranks wait at the gate."""

    seconds: float
    """From the fork to the gate to this end."""

    reason: str = ""
    """Reason why the ranks start without a preload; "" if they have imported the modules."""


@dataclass(frozen=True)
class Released:
    time: float
    """Time of the first exec."""


@dataclass(frozen=True)
class RankStarted:
    rank: int
    pid: int
    time: float


@dataclass(frozen=True)
class FirstLine:
    """A Python rank is about to execute the first line of its script."""

    rank: int
    time: float
