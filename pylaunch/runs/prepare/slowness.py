"""Find nodes that were slower than their peers in a phase of the start. Pure."""

from collections.abc import Mapping
from statistics import median

FACTOR = 3.0
"""A slow node takes at least this many times the median."""

AT_LEAST_S = 0.5
"""A slow node takes at least this much longer than the median; smaller differences are noise."""


def slow_nodes(seconds: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    """Return the slow nodes in `seconds` (host → phase → duration), in words."""
    phases = dict.fromkeys(phase for times in seconds.values() for phase in times)
    found = []
    for phase in phases:
        took = {host: times[phase] for host, times in seconds.items() if phase in times}
        usual = median(took.values())
        limit = max(FACTOR * usual, usual + AT_LEAST_S)
        slow = [(host, each) for host, each in took.items() if each > limit]
        found += [f"{host} took {each:.1f} s to {phase}; the median is {usual:.1f} s" for host, each in slow]
    return tuple(found)
