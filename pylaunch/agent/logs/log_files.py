"""Log files while ranks write to them: their limit on the disk, and an index by time.

Ranks write directly to their files, so nothing is lost if the agent dies. Beyond the limit the agent punches a hole
(fallocate(2)) between the first and the newest bytes: size and offsets stay, the blocks on the disk are released.
Lines have no timestamps: once a second the agent appends a mark (time, size of the log) for each log that has grown. A
reader dates earlier output by the next mark.
"""

from __future__ import annotations

import collections
import ctypes
import math
import os
import struct
import time
from typing import Iterable, Mapping, Tuple

from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.event_loop import Part
from pylaunch.agent.shared.record import note
from pylaunch.base.layout import RunDirectory

PERIOD_S = 1.0
"""Time between two looks at the sizes. Output of a rank in between is in addition to the limit."""

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


class LogLimit(Part):
    """Limit of `limit` bytes on the disk for each of several files; 0 is no limit."""

    def __init__(self, paths: Iterable[str], limit: int) -> None:
        self._paths = list(paths) if limit else []
        self._limit = limit
        self._next = 0.0

    def deadline(self) -> float | None:
        """Return the time of the next check; None for never."""
        return self._next if self._paths else None

    def tick(self, now: float) -> None:
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


Mark = Tuple[float, int]
"""Seconds since the epoch, and the size of the log then."""

MOST = 8192
"""Marks in one file, 128 KiB. Of a full file, every second mark is removed: the oldest ones become sparse."""

_MARK = struct.Struct("<dq")


class LogIndex(Part):
    """Writer of the marks of one run; `streams`: stream name → log file."""

    def __init__(self, directory: RunDirectory, streams: Mapping[str, str]) -> None:
        self._directory = directory
        self._streams = dict(streams)
        self._sizes: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._next = 0.0

    def tick(self, now: float) -> None:
        """Record the sizes that have grown, if it is time to."""
        if now >= self._next:
            self._next = now + PERIOD_S
            self.end()

    def end(self) -> Iterable[str]:
        """Record the sizes that have grown."""
        for name, path in list(self._streams.items()):
            try:
                # Time is read after size: bytes written in between are dated too late, never too early.
                size, moment = os.lstat(path).st_size, time.time()
                if size != self._sizes.get(name, 0):
                    self._append(name, (moment, size))
                    self._sizes[name] = size
            except FileNotFoundError:
                continue
            except OSError as error:
                del self._streams[name]
                note(f"when {path} was written is not known from here on: {error.strerror}")
        return ()

    def _append(self, name: str, mark: Mark) -> None:
        path = self._directory.times(name)
        if name not in self._counts:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        rank_files.append(path, _MARK.pack(*mark))
        self._counts[name] = self._counts.get(name, 0) + 1
        if self._counts[name] >= MOST:
            kept = read(path)[1::2]
            rank_files.replace(path, b"".join(_MARK.pack(*each) for each in kept))
            self._counts[name] = len(kept)


def read(path: str) -> list[Mark]:
    """Return the marks in a file, oldest first, without invalid ones; [] without a file."""
    try:
        content = rank_files.read(path, MOST * _MARK.size)
    except OSError:
        return []
    whole = len(content) // _MARK.size * _MARK.size
    return [(at, size) for at, size in _MARK.iter_unpack(content[:whole]) if math.isfinite(at) and size >= 0]


class Dates:
    """Dates of the present content of logs: stream name and offset → the next mark, if any."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._marks: dict[str, collections.deque[Mark]] = {}

    def __call__(self, name: str, offset: int) -> Mark | None:
        """Return the first mark after `offset`, which must not decrease from call to call."""
        if name not in self._marks:
            self._marks[name] = collections.deque(read(self._directory.times(name)))
        marks = self._marks[name]
        while marks and marks[0][1] <= offset:
            marks.popleft()
        return marks[0] if marks else None
