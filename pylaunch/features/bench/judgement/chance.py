"""Probability that chance alone makes a healthy one of several peers the slowest. Pure.

The test compares ranks of rates and assumes no distribution: of k rates of a suspect and K rates of others, the
probability that the k are among the lowest k + t is C(k + t, t) / C(k + K, k). It is multiplied by the number of peers,
each of which could have been the suspect.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import comb

MOST_ERROR = 1e-4
"""Probability that chance makes a verdict name any good node."""

MOST_ROUNDS = 16
"""Measurements that confirm a suspicion."""


def chance(draws: Sequence[float], others: Sequence[float], candidates: int) -> float:
    """Return a bound of the probability that chance makes `draws` of any of `candidates` as low among `others`."""
    if not draws or not others:
        return 1.0
    below = bisect_left(sorted(others), max(draws))
    return min(1.0, candidates * comb(len(draws) + below, below) / comb(len(draws) + len(others), len(draws)))


def best_chance(draws: int, others: int, candidates: int) -> float:
    """Return the bound of `chance` for rates that are lower than all of `others` but one."""
    return candidates * (draws + 1) / comb(draws + others, draws)
