"""Devices and file systems that are slow relative to their peers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from pylaunch.agent.shared.dataclass import dataclass

LOW = 0.85
FEWEST = 3
"""Of one kind, with which one of them can be compared."""


@dataclass(frozen=True)
class Straggler:
    """One of several peers that is slower than the median."""

    name: str
    share: float
    """Relative to the median of its peers."""


def stragglers(rates: Mapping[str, float]) -> tuple[Straggler, ...]:
    """Return those of `rates` (name → rate) below LOW of the median, the slowest first.

    Returns () for fewer than FEWEST, and if more than a third is low: then there is no majority to compare with.
    """
    if len(rates) < FEWEST:
        return ()
    middle = median(rates.values())
    found = [Straggler(name, rate / middle) for name, rate in rates.items() if rate < LOW * middle]
    if len(found) * 3 > len(rates):
        return ()
    return tuple(sorted(found, key=lambda each: (each.share, each.name)))
