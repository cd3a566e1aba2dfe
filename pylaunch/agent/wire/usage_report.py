"""How busy a node is and how far its ranks are: messages of `wire`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class StepMark:
    """The last step that a rank has marked with `pylaunch.runtime.step`, and when."""

    rank: int
    step: int
    time: float
    total: int = 0
    """The last step that there will be; 0 where the rank does not say."""


@dataclass(frozen=True)
class Usage:
    """What the node is busy with. Shares are 0 … 1, sizes bytes, rates bytes a second since the last time."""

    cpu: float
    memory_used: int
    memory: int
    received: float
    sent: float
    gpu: float | None
    """Mean utilization of all devices; None where there is none, or where none answers."""

    gpu_memory_used: int
    gpu_memory: int
    steps: list[StepMark] = field(default_factory=list)
    """How far its ranks are; those that mark no steps are missing."""
