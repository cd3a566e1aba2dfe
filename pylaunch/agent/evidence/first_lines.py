"""First line of user code in each Python rank: the time at which `in_rank/sitecustomize.py` has returned to Python.

The hook of a rank sets this time as that of the file for its stacks. Python itself then needs about a millisecond until
the script. Programs that do not load the hook report none.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from pylaunch.agent.evidence import examination
from pylaunch.base.layout import RunDirectory

LOOKS_S = 120.0
"""Time after the start of a rank until which it is looked for."""

EARLY_S = 0.05
"""Accuracy of the times of files, with a margin."""


class FirstLines:
    """Ranks whose first line has not been seen. Times are seconds since the epoch."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._started: dict[int, float] = {}
        self._known: set[int] = set()

    def expect(self, rank: int, started: float) -> None:
        """Look for the first line of `rank`, unless it is known from an earlier process of the rank."""
        if rank not in self._known:
            self._started[rank] = started

    def found(self, now: float) -> Iterator[tuple[int, float]]:
        """Yield each rank that has begun, with the time, once. A time that cannot be true is ignored."""
        for rank, started in list(self._started.items()):
            at = self._time_of(rank)
            if at is not None and started - EARLY_S <= at <= now + EARLY_S:
                yield rank, max(at, started)
                self._known.add(rank)
                del self._started[rank]
            elif now > started + LOOKS_S:
                del self._started[rank]

    def _time_of(self, rank: int) -> float | None:
        try:
            status = os.lstat(self._directory.of_rank(rank, examination.STACKS))
        except OSError:
            return None
        return status.st_mtime if stat.S_ISREG(status.st_mode) else None
