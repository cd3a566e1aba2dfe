"""Waiting for something that nobody announces, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.02


def reached(done: Callable[[], bool], timeout_s: float, sleep: Callable[[float], None] = time.sleep) -> bool:  # noqa: TID251
    """Ask `done` until it is true or the time is over; its last answer."""
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            return False
        sleep(POLL_S)
    return True
