"""Signs of life of ranks, from their log files and /proc: a rank notices nothing."""

from __future__ import annotations

import os

from pylaunch.agent import wire
from pylaunch.agent.shared.text import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator, Mapping

MOST_PROCESSES = 64
"""Processes of one rank that are read: itself and its children."""


class ActivityMeter:
    """Source of the signs of life for one controller, every `every_s`."""

    def __init__(
        self, every_s: float, ranks: Callable[[], Mapping[int, int]], streams: Mapping[str, str],
        step: Callable[[int], int | None],
    ) -> None:  # fmt: skip
        self._every_s = every_s
        self._ranks = ranks
        """Returns rank → process id of the ranks that run."""

        self._streams = streams
        self._step = step
        self._next = 0.0
        self._last: wire.Activity | None = None

    def has_news(self, now: float) -> bool:
        """Return True if a reading is due."""
        return now >= self._next

    def read(self, now: float) -> wire.Activity | None:
        """Return the signs of life; None before the next are due, and while nothing changes. `now` is monotonic."""
        if not self.has_news(now):
            return None
        self._next = now + self._every_s
        signs = [self._signs(rank, pid) for rank, pid in sorted(self._ranks().items())]
        activity = wire.Activity(signs)
        if activity == self._last:
            return None
        self._last = activity
        return activity

    def _signs(self, rank: int, pid: int) -> wire.RankSigns:
        written = sum(_size(self._streams[f"{rank}.{end}"]) for end in ("out", "err"))
        return wire.RankSigns(rank, written, sum(map(moved, _processes(pid))), self._step(rank))


def moved(pid: int) -> int:
    """Return the bytes that `pid` has read and written, page faults included; 0 if they cannot be read."""
    try:
        fields = dict(line.split(": ", 1) for line in text_of(f"/proc/{pid}/io").splitlines())
        return sum(int(fields[name]) for name in ("rchar", "wchar", "read_bytes", "write_bytes"))
    except (OSError, ValueError, KeyError):
        return 0


def _processes(pid: int) -> Iterator[int]:
    """Yield `pid` and its descendants that its main threads started."""
    waiting, seen = [pid], 0
    while waiting and seen < MOST_PROCESSES:
        each = waiting.pop()
        seen += 1
        yield each
        try:
            waiting += map(int, text_of(f"/proc/{each}/task/{each}/children").split())
        except (OSError, ValueError):
            continue


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
