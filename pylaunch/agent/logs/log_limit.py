"""Size limit of log files while ranks write to them: the first and the newest bytes stay, the middle is removed.

The rank writes directly to its file, so nothing is lost if the agent dies. The file is neither renamed nor truncated:
the agent punches a hole into it (fallocate(2), FALLOC_FL_PUNCH_HOLE). Size and offsets are unaffected; only the blocks
on the disk are released.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.record import note

PERIOD_S = 1.0
"""Time between two checks. Output of a rank in between is in addition to the limit."""

HEAD = 1 << 20
"""Bytes at the beginning that are kept."""

_BLOCK = 4096
_KEEP_SIZE = 1
_PUNCH_HOLE = 2


def middle(size: int, limit: int) -> tuple[int, int]:
    """Return start and end of the hole that brings a file of `size` bytes within `limit`, with room to grow."""
    first = -(-min(HEAD, limit // 4) // _BLOCK) * _BLOCK
    last = (size - limit // 2) // _BLOCK * _BLOCK
    return first, max(first, last)


class LogLimit:
    """Limit of `limit` bytes on the disk for each of several files; 0 is no limit."""

    def __init__(self, paths: Iterable[str], limit: int) -> None:
        self._paths = list(paths) if limit else []
        self._limit = limit
        self._next = 0.0

    def next_look(self) -> float | None:
        """Return the monotonic time of the next call of `keep`; None for never."""
        return self._next if self._paths else None

    def keep(self, now: float) -> None:
        """Release the blocks beyond the limit, if it is time to check."""
        if now < self._next:
            return
        self._next = now + PERIOD_S
        for path in list(self._paths):
            try:
                self._keep(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._paths.remove(path)
                note(f"{path} cannot be kept within {self._limit} bytes: {error.strerror}")

    def _keep(self, path: str) -> None:
        status = os.lstat(path)
        if status.st_blocks * 512 <= self._limit:
            return
        first, last = middle(status.st_size, self._limit)
        if last > first:
            _punch(path, first, last - first)


def _punch(path: str, start: int, length: int) -> None:
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    file = rank_files.open_regular(path, os.O_WRONLY)
    try:
        if fallocate(file, _KEEP_SIZE | _PUNCH_HOLE, start, length) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(file)
