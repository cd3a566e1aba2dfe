"""A rate between two nodes needs both ends of a pair that was planned: one rank alone makes none."""

from __future__ import annotations

import pytest

from pylaunch.features.bench.judgement.measurements import PairTimed
from pylaunch.features.bench.judgement.rates import pair_rates

MB = 1_000_000


def timed(rank: int, peer: int, seconds: float, number: int = 0) -> PairTimed:
    return PairTimed(rank=rank, round=number, peer=peer, size=MB, seconds=(seconds,))


def test_both_ends_count() -> None:
    (found,) = pair_rates([timed(0, 1, 0.001), timed(1, 0, 0.002)], [[(0, 1)]], 1)
    assert found.pair == (0, 1)
    assert found.rate == pytest.approx((1 + 0.5) / 2)


@pytest.mark.parametrize(
    "lines",
    [
        [timed(0, 1, 0.001)],
        [timed(0, 1, 0.001), timed(0, 1, 0.001)],
        [timed(0, 1, 0.001), timed(1, 0, 0.001), timed(0, 1, 9.0)],
        [timed(0, 2, 0.001), timed(2, 0, 0.001)],
        [timed(0, 1, 0.001, number=1), timed(1, 0, 0.001, number=1)],
    ],
    ids=["one end", "one end twice", "a second claim", "another pair", "another round"],
)
def test_what_was_not_planned_or_is_not_confirmed_by_the_other_end_is_dropped(lines: list[PairTimed]) -> None:
    assert pair_rates(lines, [[(0, 1)], []], 1) == []


def test_the_slowest_pair_of_ranks_counts_for_the_node() -> None:
    lines = [timed(0, 2, 0.001), timed(2, 0, 0.001), timed(1, 3, 0.004), timed(3, 1, 0.004)]
    (found,) = pair_rates(lines, [[(0, 1)]], 2)
    assert found.rate == pytest.approx(2 * 0.25)
    assert pair_rates(lines[:2], [[(0, 1)]], 2) == []
    assert pair_rates([timed(0, 3, 0.001), timed(3, 0, 0.001)], [[(0, 1)]], 2) == []
