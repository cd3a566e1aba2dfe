"""Sums of the collectives are exact in float32 for every number of ranks that bench accepts."""

from __future__ import annotations

import pytest

from pylaunch.features.bench.judgement.sweep import MOST_RANKS
from pylaunch.features.bench.ranks.collectives import CONTRIBUTIONS, contribution, contributions

EXACT = 2**24
"""Largest integer up to which float32 has all of them."""


@pytest.mark.parametrize("ranks", [1, 2, 511, 512, 513, 8192])
def test_the_expected_sum_is_that_of_all_ranks(ranks: int) -> None:
    assert contributions(ranks) == sum(map(contribution, range(ranks)))


def test_neighbours_contribute_different_values() -> None:
    assert all(contribution(rank) != contribution(rank + 1) for rank in range(2 * CONTRIBUTIONS))


def test_sums_and_products_are_exact() -> None:
    assert contributions(MOST_RANKS) <= EXACT < contributions(MOST_RANKS + CONTRIBUTIONS)
    assert CONTRIBUTIONS**2 <= EXACT
