"""Every role: what it wants is there."""

from __future__ import annotations

import pytest
from conftest import Surveyed


def test_nothing_differs_from_the_desired_state(reachable: str, surveyed: Surveyed) -> None:
    changes = surveyed.found.changes[reachable]
    reported = "\n".join(f"{change.role}: {change.subject} {change.difference}" for change in changes)
    if reported:
        pytest.fail(f"{reachable} differs:\n{reported}", pytrace=False)
