"""Regressions against a baseline."""

from __future__ import annotations

import pytest

from pylaunch.features.bench.judgement.baseline import Level, regressions


def level(bandwidth: float, noise: float, size: int = 1 << 20) -> Level:
    return Level("all-reduce", size, bandwidth, noise)


def test_a_regression_has_its_size_loss_and_noise() -> None:
    (found,) = regressions([level(10.0, 0.03)], [level(7.0, 0.04)])
    assert (found.operation, found.size) == ("all-reduce", 1 << 20)
    assert found.loss == pytest.approx(0.3)
    assert found.noise == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (level(10.0, 0.0), level(9.2, 0.0)),
        (level(10.0, 0.1), level(7.0, 0.1)),
        (level(10.0, 0.0), level(12.0, 0.0)),
        (level(0.0, 0.0), level(1.0, 0.0)),
    ],
)
def test_small_losses_and_losses_within_the_noise_are_none(before: Level, now: Level) -> None:
    assert regressions([before], [now]) == ()


def test_sizes_that_the_baseline_lacks_are_not_compared() -> None:
    assert regressions([level(10.0, 0.0)], [level(0.1, 0.0, 4)]) == ()
