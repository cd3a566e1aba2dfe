"""Sizes of a sweep, and one clear line for each wrong value."""

from __future__ import annotations

import itertools

import pytest

from pylaunch.features.bench.judgement.sweep import GROWTH, checked_sweep


def test_defaults_grow_by_a_factor_and_end_with_the_largest() -> None:
    sizes = checked_sweep(None, None, None, None, None).sizes()
    assert sizes[0] == 4096
    assert sizes[-1] == 64 << 20
    assert all(after == GROWTH * before for before, after in itertools.pairwise(sizes))


def test_the_largest_size_is_measured_also_between_two_steps() -> None:
    assert checked_sweep("1K", "5000", None, None, None).sizes() == (1024, 4096, 5000)
    assert checked_sweep("8M", "8M", None, None, None).sizes() == (8 << 20,)
    assert checked_sweep(None, "1K", None, None, None).sizes() == (1024,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((None, "0", None, None, None), "--max-size 0: expected 4 bytes"),
        ((None, "-1M", None, None, None), "--max-size: expected a size"),
        (("many", None, None, None, None), "--min-size: expected a size"),
        ((None, "100T", None, None, None), "--max-size 100T: expected"),
        (("2M", "1M", None, None, None), "--min-size 2M is larger than --max-size 1M"),
        ((None, None, 0, None, None), "--iterations 0: expected 1"),
        ((None, None, None, -1, None), "--warm-up -1: expected 0"),
        ((None, None, None, None, 0.0), "--time-limit 0: expected 1"),
    ],
)
def test_wrong_values_are_named(
    given: tuple[str | None, str | None, int | None, int | None, float | None], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        checked_sweep(*given)
