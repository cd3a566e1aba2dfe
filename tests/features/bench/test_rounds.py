"""Rounds of pairs, and sums of ranks that are exact."""

from itertools import combinations

import pytest

from pylaunch.features.bench.ranks.collectives import CONTRIBUTIONS, contribution, contributions
from pylaunch.features.bench.ranks.rounds import pairs_of, partner, round_count


@pytest.mark.parametrize("nodes", range(2, 34))
def test_all_rounds_contain_each_pair_once(nodes: int) -> None:
    met = [pair for number in range(round_count(nodes)) for pair in pairs_of(number, nodes)]
    assert sorted(met) == sorted(combinations(range(nodes), 2))


@pytest.mark.parametrize("nodes", [2, 3, 7, 8, 1000, 1023, 4096])
def test_pairs_of_a_round_are_disjoint_and_mutual(nodes: int) -> None:
    for number in {0, 1, round_count(nodes) // 2, round_count(nodes) - 1}:
        pairs = pairs_of(number, nodes)
        met = [node for pair in pairs for node in pair]
        assert len(met) == len(set(met)) == nodes - nodes % 2
        assert all(partner(second, number, nodes) == first for first, second in pairs)


@pytest.mark.parametrize("ranks", [1, 2, 511, 512, 513, 8192])
def test_the_expected_sum_is_that_of_all_ranks(ranks: int) -> None:
    assert contributions(ranks) == sum(map(contribution, range(ranks)))


def test_neighbours_contribute_different_values() -> None:
    assert all(contribution(rank) != contribution(rank + 1) for rank in range(2 * CONTRIBUTIONS))
