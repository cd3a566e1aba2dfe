"""File systems without free space or inodes, reported beside a rank's failure."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

LEAST_BYTES = 64 << 10
LEAST_INODES = 4
"""Below these limits, writes of a rank have failed or soon will."""


def full(paths: Iterable[str]) -> list[str]:
    """Return a phrase for each full file system among `paths`, named by the first path on it."""
    seen: dict[int, str] = {}
    for path in paths:
        try:
            device, status = os.stat(path).st_dev, os.statvfs(path)
        except OSError:
            continue
        if device not in seen:
            seen[device] = _described(path, status)
    return [phrase for phrase in seen.values() if phrase]


def _described(path: str, status: os.statvfs_result) -> str:
    is_root = os.getuid() == 0
    free = (status.f_bfree if is_root else status.f_bavail) * status.f_frsize
    inodes = status.f_ffree if is_root else status.f_favail
    if status.f_blocks and free < LEAST_BYTES:
        return f"{path} is full ({free >> 10} KiB of {(status.f_blocks * status.f_frsize) >> 20} MiB free)"
    if status.f_files and inodes < LEAST_INODES:
        return f"{path} has no inodes left ({inodes} of {status.f_files} free)"
    return ""
