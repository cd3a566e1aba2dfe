"""Find nodes that were slower than their peers in a phase of the start. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from pylaunch.base.dataclass import dataclass

FACTOR = 3.0
"""A slow node takes at least this many times the median."""

AT_LEAST_S = 0.5
"""A slow node takes at least this much longer than the median; smaller differences are noise."""

PEERS = 3
"""Fewer nodes show no usual duration."""


@dataclass(frozen=True)
class Slow:
    """A node that took much longer than most."""

    host: str
    phase: str
    seconds: float
    usual: float
    """The median of all nodes."""

    def __str__(self) -> str:
        return f"{self.host} took {self.seconds:.1f} s to {self.phase}; the median is {self.usual:.1f} s"


def slow_nodes(seconds: Mapping[str, Mapping[str, float]]) -> tuple[Slow, ...]:
    """Return the slow nodes in `seconds` (host → phase → duration)."""
    phases = dict.fromkeys(phase for times in seconds.values() for phase in times)
    found = []
    for phase in phases:
        took = {host: times[phase] for host, times in seconds.items() if phase in times}
        if len(took) < PEERS:
            continue
        usual = median(took.values())
        limit = max(FACTOR * usual, usual + AT_LEAST_S)
        found += [Slow(host, phase, each, usual) for host, each in took.items() if each > limit]
    return tuple(found)
