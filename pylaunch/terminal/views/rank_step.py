"""Progress of a rank at one moment."""

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
