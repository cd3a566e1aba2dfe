"""Wait for a condition that nothing signals, with a deadline."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_S = 60.0
POLL_S = 0.02
T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Return the first true value of `condition`; fail the test when there is none in time."""
    until = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < until, f"not within {deadline_s:g} s: {what}"
        select.select([], [], [], POLL_S)
    return value
