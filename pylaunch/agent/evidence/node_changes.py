"""Limits that ended a rank, full file systems, and what its node had at the start of the run and no longer has.

The error of a rank names none of these: a directory that was unmounted looks like one that never was there.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import time
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
_TOO_LARGE = "[Errno 27]"
_MISSING = ("[Errno 2]", "[Errno 20]", "[Errno 107]", "[Errno 116]", "No module named", "cannot open shared object")
"""Texts of errors about something that is not there, or about a file system that is not there."""

FILTERED = "Seccomp:\t2"
"""Line in /proc/PID/status of a process with a filter of system calls."""


class NodeAtStart:
    """Mounts and interpreter of a node when it prepared a run."""

    def __init__(self, python: str) -> None:
        self._time = time.time()
        self._mounts = mount_points(text_or_none("/proc/self/mountinfo") or "")
        self._python = python
        self._real = _directory_of(python) if os.path.exists(python) else ""

    def changes(self, error: str) -> list[str]:
        """Return phrases about what an `error` of a rank is about and the node no longer has."""
        if not any(text in error for text in _MISSING):
            return []
        paths = _PATH.findall(error)[:2]
        mounts = mount_points(text_or_none("/proc/self/mountinfo") or "")
        lost = sorted({mount for path in paths for mount in self._mounts - mounts if _is_in(path, mount)})
        found = [f"{mount} was mounted at the start and is not mounted now" for mount in lost[-1:]]
        found += self._of_environment()
        return found or [phrase for path in paths for phrase in self._of_directory(path)][:1]

    def _of_environment(self) -> list[str]:
        if not self._real:
            return []
        real = _directory_of(self._python)
        if not os.path.exists(self._python):
            return [f"the Python of the ranks was there at the start and is gone: {self._python}"]
        if real != self._real:
            return [f"{self._python} was in {self._real} at the start and is in {real} now"]
        return []

    def _of_directory(self, path: str) -> list[str]:
        """Return the directory of `path` that is missing, if the one above it has changed since the start."""
        missing, above = path, os.path.dirname(path)
        while above != "/" and not os.path.isdir(above):
            missing, above = above, os.path.dirname(above)
        if missing == path:
            return []
        try:
            changed = os.stat(above).st_mtime > self._time
        except OSError:
            return []
        return [f"the directory {missing} is missing, and {above} has changed since the start"] if changed else []


def mount_points(mountinfo: str) -> frozenset[str]:
    """Return the mount points but / in the lines of /proc/self/mountinfo."""
    rows = [line.split(" ") for line in mountinfo.split("\n") if line]
    return frozenset([row[4].replace("\\040", " ") for row in rows if len(row) > 4 and row[4] != "/"])


def existing_directory(error: str) -> list[str]:
    """Return the deepest directory that is there of the first path in `error`; [] without a path."""
    for path in _PATH.findall(error)[:1]:
        while path != "/" and not os.path.isdir(path):
            path = os.path.dirname(path)
        return [path]
    return []


def limits_reached(number: int | None, error: str) -> list[str]:
    """Return the limit in force, or the filter, because of which a signal or an error ended a rank."""
    if number == signal.SIGXFSZ or _TOO_LARGE in error:
        return [f"a file reached the limit of its size (ulimit -f: {_shown(resource.RLIMIT_FSIZE, 1024, ' KiB')})"]
    if number == signal.SIGXCPU:
        return [f"it used up its processor time (ulimit -t: {_shown(resource.RLIMIT_CPU, 1, ' s')})"]
    if number == signal.SIGSYS:
        is_filtered = FILTERED in (text_or_none("/proc/self/status") or "")
        whose = "the node's agent has one, too: a container or systemd set it" if is_filtered else "the program set it"
        return [f"a filter of system calls (seccomp) forbade one: {whose}"]
    return []


def _shown(limit: int, unit: int, name: str) -> str:
    soft = resource.getrlimit(limit)[0]
    return "unlimited for the agent: the program set it" if soft == resource.RLIM_INFINITY else f"{soft // unit}{name}"


def _directory_of(python: str) -> str:
    """Return the directory of an interpreter, which a link on the way may name otherwise."""
    return os.path.realpath(os.path.dirname(python))


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + "/")
