"""Times of the looks into the directories of logs: soon after the kernel says that a file there has changed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping

EVERY_S = 0.05
"""Time between two looks while output arrives, or where the kernel does not notify."""

IDLE_S = 0.25
"""Longest time without a look: an unfinished line, or a measurement, may be due."""


class Looks:
    """Times of the looks into directories; `watched`: directory → DN_* events of fcntl that are news there."""

    def __init__(self, watched: Mapping[str, int]) -> None:
        self._watched = watched
        self._descriptors: dict[str, int] = {}
        self._is_armed = False
        self._next = 0.0

    def changed(self) -> None:
        """Take the news of the kernel."""
        self._is_armed = False

    def begin(self, now: float) -> None:
        """Ask the kernel for a SIGIO at the next change, if it is time to. Call this before each look."""
        if self._is_armed or now < self._next:
            return
        self._next = now + EVERY_S
        try:
            for path, events in self._watched.items():
                if path not in self._descriptors:
                    self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
                fcntl.fcntl(self._descriptors[path], fcntl.F_NOTIFY, events)
            self._is_armed = True
        except OSError:  # A directory that is not there yet, or a kernel without dnotify.
            self._is_armed = False

    def next(self, now: float) -> float:
        """Return the time of the next look, if the kernel does not notify before."""
        return now + IDLE_S if self._is_armed else max(now, self._next)
