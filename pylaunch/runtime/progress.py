"""How far a rank has come: one record in a file that the launcher names, written in place without a system call."""

from __future__ import annotations

import math
import mmap
import os
import struct
import time
from dataclasses import dataclass

VARIABLE = "PYLAUNCH_STEP_FILE"
_RECORD = struct.Struct("<qdqq")
"""The step, when it was marked (seconds since the epoch), the last step that there will be (0: not known), and the step
again: ends that differ are half written."""

SIZE = _RECORD.size


@dataclass(frozen=True)
class Mark:
    """A step, when it was marked, and the last step that there will be (0: not known)."""

    step: int
    time: float
    total: int = 0


class _File:
    """The file of this process, opened at the first mark."""

    def __init__(self) -> None:
        self.record: mmap.mmap | None = None
        self.is_open = False


_FILE = _File()


def step(number: int, total: int = 0) -> None:
    """Mark that this rank has done step `number`, of `total` where that is known.

    Costs about a microsecond; without a launcher, nothing happens.
    """
    if not _FILE.is_open:
        _FILE.record = _open(os.environ.get(VARIABLE))
        _FILE.is_open = True
    if _FILE.record is not None:
        _RECORD.pack_into(_FILE.record, 0, number, time.time(), total, number)


def _open(path: str | None) -> mmap.mmap | None:
    """A file that cannot be written costs the marks, never the training."""
    if not path:
        return None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, _RECORD.size)
            os.posix_fallocate(descriptor, 0, _RECORD.size)
            return mmap.mmap(descriptor, _RECORD.size)
        finally:
            os.close(descriptor)
    except OSError:
        return None


def decoded(content: bytes) -> Mark | None:
    """The last mark in the file's `content`; None when there is none yet, or when it was being written just then."""
    if len(content) != SIZE:
        return None
    first, when, total, last = _RECORD.unpack(content)
    return Mark(first, when, max(0, total)) if first == last and 0 < when < math.inf else None
