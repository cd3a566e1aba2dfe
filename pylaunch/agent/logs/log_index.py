"""When ranks wrote what: for each log file a small one of marks, "at this time it had so many bytes".

Nothing stands between a rank and its log, so lines have no times of their own. The agent looks at the sizes once a
second and writes down those that have grown. What lies behind the last mark before a moment was written after that
mark: a reader who begins there misses nothing since that moment, and sees at most what was written between the two.

A file of marks is bounded. When it is full, marks are thinned by their age: those of the last minutes stay as they are,
of older ones one in every 1/SHARE of their age.
"""

from __future__ import annotations

import collections
import math
import os
import struct
import time
from typing import Iterable, Mapping, Tuple

from pylaunch.agent.logs.tail import CHUNK
from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.layout import RunDirectory
from pylaunch.agent.shared.record import note

PERIOD_S = 1.0
"""Between two looks at the sizes."""

MOST = 8192
"""Marks in one file, 128 KiB."""

SHARE = 512
"""After thinning, the time between two marks is this part of their age. A year takes some 6000 marks."""

MTIME_SLACK_S = 1.0
"""By how much the kernel may date a write too early, and far more."""

_MARK = struct.Struct("<dq")

Mark = Tuple[float, int]
"""Seconds since the epoch, and the bytes that were there."""


class LogIndex:
    """Writes the marks of the streams of one run: stream name → log file."""

    def __init__(self, directory: RunDirectory, streams: Mapping[str, str]) -> None:
        self._directory = directory
        self._streams = dict(streams)
        self._sizes: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._next = 0.0

    def look(self, now: float) -> None:
        """Write down what has grown, if it is time to look. `now` is monotonic."""
        if now >= self._next:
            self._next = now + PERIOD_S
            self.note()

    def note(self) -> None:
        """Write down what has grown."""
        for name, path in list(self._streams.items()):
            try:
                # The time after the size: bytes that come in between are dated too late, never too early.
                size, moment = os.lstat(path).st_size, time.time()
                if size != self._sizes.get(name, 0):
                    self._append(name, (moment, size))
                    self._sizes[name] = size
            except FileNotFoundError:
                continue
            except OSError as error:
                del self._streams[name]
                note(f"when {path} was written is not known from here on: {error.strerror}")

    def _append(self, name: str, mark: Mark) -> None:
        path = self._directory.times(name)
        if name not in self._counts:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        rank_files.append(path, _MARK.pack(*mark))
        self._counts[name] = self._counts.get(name, 0) + 1
        if self._counts[name] >= MOST:
            kept = thinned(read(path), mark[0])
            rank_files.replace(path, b"".join(_MARK.pack(*each) for each in kept))
            self._counts[name] = len(kept)


def read(path: str) -> list[Mark]:
    """The marks in a file, the oldest first; none where there is no file. What is no mark is left out."""
    try:
        content = rank_files.read(path, MOST * _MARK.size)
    except OSError:
        return []
    whole = len(content) // _MARK.size * _MARK.size
    return [(at, size) for at, size in _MARK.iter_unpack(content[:whole]) if math.isfinite(at) and size >= 0]


def thinned(marks: list[Mark], now: float) -> list[Mark]:
    """At most three quarters of MOST of `marks`: the newest, and of older ones fewer, the older they are."""
    share = SHARE
    while True:
        kept: list[Mark] = []
        for mark in reversed(marks):
            if not kept or abs(kept[-1][0] - mark[0]) >= max(0.0, now - mark[0]) / share:
                kept.append(mark)
        if len(kept) <= MOST * 3 // 4:
            return kept[::-1]
        share //= 2


def before(marks: Iterable[Mark], moment: float) -> int:
    """How many bytes had surely been written at `moment`. A clock that was set back makes them fewer, never more."""
    size = 0
    for at, there in marks:
        if at > moment:
            break
        size = there
    return size


def begins(directory: RunDirectory, paths: Mapping[str, str], moment: float | None) -> dict[str, int]:
    """Where to begin in each stream to have all that was written since `moment`; {} for None."""
    if moment is None:
        return {}
    return {name: _begin(path, read(directory.times(name)), moment) for name, path in paths.items()}


def _begin(path: str, marks: list[Mark], moment: float) -> int:
    try:
        status = os.lstat(path)
        if status.st_mtime + MTIME_SLACK_S < moment:
            return status.st_size
        return line_begin(path, before(marks, moment))
    except OSError:
        return 0


class Dates:
    """When what logs have now was written: stream name and offset → the mark that follows, if there is one."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._marks: dict[str, collections.deque[Mark]] = {}

    def __call__(self, name: str, offset: int) -> Mark | None:
        """The first mark behind `offset`, which must not become less from one call to the next."""
        if name not in self._marks:
            self._marks[name] = collections.deque(read(self._directory.times(name)))
        marks = self._marks[name]
        while marks and marks[0][1] <= offset:
            marks.popleft()
        return marks[0] if marks else None


def line_begin(path: str, offset: int) -> int:
    """The beginning of the line that is unfinished at `offset`, if it is no further back than CHUNK. Raises OSError."""
    start = max(0, offset - CHUNK)
    with open(rank_files.open_regular(path), "rb", buffering=0) as source:
        block = os.pread(source.fileno(), offset - start, start)
    newline = block.rfind(b"\n")
    return start + newline + 1 if newline >= 0 or start == 0 else offset
