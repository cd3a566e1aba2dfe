"""The time of this process: that of the wall clock when it began, and the seconds that the kernel has counted since.

A wall clock that is set during a run, as after a laptop woke up, would give the run another order of events and another
duration. The kernel also counts while the machine sleeps. A process that serves for days takes the wall clock again for
a run that it begins while it follows no other.
"""

import contextlib
import time
from collections.abc import Iterator


def now() -> float:
    """Return seconds since the epoch."""
    return _began + time.clock_gettime(_CLOCK)


def begin() -> None:
    """Take the wall clock as it is now, unless a run is followed."""
    global _began
    if not _kept:
        _began = time.time() - time.clock_gettime(_CLOCK)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Follow a run: `begin`, and keep that clock to the end of the block."""
    begin()
    _kept.append(None)
    try:
        yield
    finally:
        _kept.pop()


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # That of macOS counts during sleep, too.
_kept: list[None] = []
_began = 0.0
begin()
