"""Messages about the load of a node and the progress of its ranks."""

from __future__ import annotations

from pylaunch.base.dataclass import dataclass, field


@dataclass(frozen=True)
class StepMark:
    """Last step that a rank marked with `pylaunch.runtime.step`, and its time."""

    rank: int
    step: int
    time: float
    total: int = 0
    """Total number of steps; 0 where the rank does not report it."""


@dataclass(frozen=True)
class Usage:
    """Load of the node. Shares are 0 … 1, sizes bytes, rates bytes per second since the previous message."""

    cpu: float
    memory_used: int
    memory: int
    received: float
    sent: float
    gpu: float | None
    """Mean utilization of all devices; None without devices, or where none answers."""

    gpu_memory_used: int
    gpu_memory: int
    steps: list[StepMark] = field(default_factory=list)
    """Progress of the ranks; those that mark no steps are missing."""


@dataclass(frozen=True)
class RankSigns:
    """Signs of life of a rank that need no answer of it."""

    rank: int
    written: int
    """Bytes of its output."""

    step: int | None = None
    """Last step that it marked."""


@dataclass(frozen=True)
class Activity:
    """Signs of life of the ranks of the node that run; sent when they change."""

    ranks: list[RankSigns]
