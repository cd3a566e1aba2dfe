"""Poll a condition that nothing signals, with a deadline."""

import time
from collections.abc import Callable

POLL_S = 0.02


def reached(done: Callable[[], bool], timeout_s: float, sleep: Callable[[float], None] = time.sleep) -> bool:  # noqa: TID251
    """Call `done` until it is true or the time is over; return its last result."""
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            return False
        sleep(POLL_S)
    return True
