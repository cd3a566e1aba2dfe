"""Wait for a condition that nothing signals, with a deadline."""

import select
import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_S = 180.0
"""Against hangs: far more than anything takes that a test waits for, also on a busy machine."""

POLL_S = 0.02
T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Return the first true value of `condition`; fail the test when there is none in time.

    A condition that starts processes leaves at least half of a processor to what it waits for.
    """
    asked = time.monotonic()
    until = asked + deadline_s
    while not (value := condition()):
        now = time.monotonic()
        assert now < until, f"not within {deadline_s:g} s: {what}"
        select.select([], [], [], max(POLL_S, now - asked))
        asked = time.monotonic()
    return value
