"""Sizes of a sweep, rounds of pairs, sums that are exact, and one clear line for each wrong value."""

import itertools
from itertools import combinations

import pytest

from pylaunch.features.bench.judgement.sweep import GROWTH, MOST_RANKS, checked_sweep
from pylaunch.features.bench.ranks.collectives import CONTRIBUTIONS, contribution, contributions
from pylaunch.features.bench.ranks.rounds import pairs_of, partner, round_count


def test_defaults_grow_by_a_factor_and_end_with_the_largest() -> None:
    sizes = checked_sweep(None, None, None).sizes()
    assert sizes[0] == 4096
    assert sizes[-1] == 64 << 20
    assert all(after == GROWTH * before for before, after in itertools.pairwise(sizes))


def test_the_largest_size_is_measured_also_between_two_steps() -> None:
    assert checked_sweep("1K", "5000", None).sizes() == (1024, 4096, 5000)
    assert checked_sweep("8M", "8M", None).sizes() == (8 << 20,)
    assert checked_sweep(None, "1K", None).sizes() == (1024,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((None, "0", None), "--max-size 0: expected 4 bytes"),
        ((None, "-1M", None), "--max-size: expected a size"),
        (("many", None, None), "--min-size: expected a size"),
        ((None, "100T", None), "--max-size 100T: expected"),
        (("2M", "1M", None), "--min-size 2M is larger than --max-size 1M"),
        ((None, None, 0), "--iterations 0: expected 1"),
    ],
)
def test_wrong_values_are_named(given: tuple[str | None, str | None, int | None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_sweep(*given)


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
