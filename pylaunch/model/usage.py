"""Usage of a node and progress of its ranks at one moment."""

from __future__ import annotations

from pylaunch.agent.shared.dataclass import dataclass


@dataclass(frozen=True)
class RankStep:
    """The last step that a rank has marked, and when, in seconds since the epoch on our clock."""

    rank: int
    step: int
    time: float
    total: int = 0
    """The last step that there will be; 0 where the rank does not say."""


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
