"""Ids of the attempts of a run."""

from __future__ import annotations

import pytest

from pylaunch.agent.shared.layout import previous_of


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("7f3a", None),
        ("7f3a.1", "7f3a"),
        ("7f3a.2", "7f3a.1"),
        ("7f3a.10", "7f3a.9"),
        ("7f3a-spares", None),
        ("7f3a.x", None),
        (".1", None),
    ],
)
def test_the_attempt_before_another_one(run: str, expected: str | None) -> None:
    assert previous_of(run) == expected
