"""File systems of a node without room for a rank: full ones, and those with a quota that is used up."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable

from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.text import text_or_none

LEAST_BYTES = 64 << 10
LEAST_INODES = 4
"""Below these limits, writes of a rank have failed or soon will."""

DISKS = frozenset(("ext2", "ext3", "ext4", "xfs", "f2fs"))
"""Types of file systems on disks of this node. Others may be shared with other nodes, or be memory; the device of a
file on btrfs is in no line of mountinfo."""


def full(paths: Iterable[str]) -> list[str]:
    """Return a phrase for each full file system among `paths`, named by the first path on it."""
    seen: dict[int, str] = {}
    for path in paths:
        try:
            device, status = os.stat(path).st_dev, os.statvfs(path)
        except OSError:
            continue
        if device not in seen:
            seen[device] = _described(path, status, device)
    return [phrase for phrase in seen.values() if phrase]


def over_quota(probe: str) -> list[str]:
    """Return a phrase if a quota leaves no room for `probe`, a file that is written and removed."""
    try:
        rank_files.replace(probe, b"0" * LEAST_BYTES)
        os.unlink(probe)
    except OSError as error:
        rank_files.remove(probe + ".new")
        if error.errno == errno.EDQUOT:
            return [f"{os.path.dirname(probe)}: {error.strerror}"]
    return []


def disk_type(mountinfo: str, device: int) -> str:
    """Return the type of a mounted file system on a disk of this node, from /proc/self/mountinfo; "" for others."""
    number = f"{os.major(device)}:{os.minor(device)}"
    # Names of mount points have spaces and line feeds escaped, but no other white space.
    lines = [line.split(" ") for line in mountinfo.split("\n") if line]
    types = [words[words.index("-") + 1] for words in lines if words[2] == number]
    return types[0] if types and types[0] in DISKS else ""


def _described(path: str, status: os.statvfs_result, device: int) -> str:
    is_root = os.getuid() == 0
    free = (status.f_bfree if is_root else status.f_bavail) * status.f_frsize
    inodes = status.f_ffree if is_root else status.f_favail
    is_full = bool(status.f_blocks) and free < LEAST_BYTES
    if not is_full and not (status.f_files and inodes < LEAST_INODES):
        return ""
    disk = disk_type(text_or_none("/proc/self/mountinfo") or "", device)
    on = f" on {disk} of this node" if disk else ""
    if is_full:
        return f"{path} is full ({free >> 10} KiB of {(status.f_blocks * status.f_frsize) >> 20} MiB free{on})"
    return f"{path} has no inodes left ({inodes} of {status.f_files} free{on})"


_PATH = re.compile(r"'(/[^'\0]{1,400})'")


def existing_directory(error: str) -> list[str]:
    """Return the deepest directory that is there of the first path in `error`; [] without a path."""
    for path in _PATH.findall(error)[:1]:
        while path != "/" and not os.path.isdir(path):
            path = os.path.dirname(path)
        return [path]
    return []
