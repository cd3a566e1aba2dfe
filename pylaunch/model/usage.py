"""Usage of a node and progress of its ranks at one moment."""

from __future__ import annotations

from pylaunch.base.dataclass import dataclass


@dataclass(frozen=True)
class RankStep:
    """The last step of a rank, and when, in seconds since the epoch on our clock."""

    rank: int
    step: float
    time: float
    total: float = 0
    """The last step that there will be; 0 where the rank does not say."""

    unit: str = "step"
    """"step", or "epoch" where the output names no step."""

    is_exact: bool = True
    """The rank has marked it; False for one that was read from the output."""


@dataclass(frozen=True)
class NodeUsage:
    """Shares are 0 … 1, sizes bytes, rates bytes a second."""

    cpu: float
    memory_used: int
    memory: int
    received: float
    sent: float
    gpu: float | None
    """Mean of all devices; None where there is none, or where none answers."""

    gpu_memory_used: int
    gpu_memory: int
    steps: tuple[RankStep, ...] = ()
    """Progress of its ranks, where they mark steps."""
