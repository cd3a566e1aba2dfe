"""Regressions against a baseline."""

from __future__ import annotations

import pytest

from pylaunch.features.bench.judgement.baseline import Level, regressions

KEY = ("all-reduce", 1 << 20)


def test_a_regression_has_its_size_loss_and_noise() -> None:
    (found,) = regressions({KEY: Level(10.0, 0.03)}, {KEY: Level(7.0, 0.04)})
    assert (found.operation, found.size) == KEY
    assert found.loss == pytest.approx(0.3)
    assert found.noise == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (Level(10.0, 0.0), Level(9.2, 0.0)),
        (Level(10.0, 0.1), Level(7.0, 0.1)),
        (Level(10.0, 0.0), Level(12.0, 0.0)),
        (Level(0.0, 0.0), Level(1.0, 0.0)),
    ],
)
def test_small_losses_and_losses_within_the_noise_are_none(before: Level, now: Level) -> None:
    assert regressions({KEY: before}, {KEY: now}) == ()


def test_sizes_that_the_baseline_lacks_are_not_compared() -> None:
    assert regressions({KEY: Level(10.0, 0.0)}, {("all-reduce", 4): Level(0.1, 0.0)}) == ()
