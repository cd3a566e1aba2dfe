"""The time of this process: that of the wall clock when it began, and the seconds that the kernel has counted since.

A wall clock that is set during a run, as after a laptop woke up, would give the run another order of events and another
duration. The kernel also counts while the machine sleeps.
"""

import time


def now() -> float:
    """Return seconds since the epoch."""
    return _BEGAN + time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # That of macOS counts during sleep, too.
_BEGAN = time.time() - time.clock_gettime(_CLOCK)
