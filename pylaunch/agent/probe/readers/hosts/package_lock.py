"""The process that holds the lock of the package manager."""

from __future__ import annotations

import fcntl
import os
import pwd
import struct

from pylaunch.agent.probe.registry import reader_of_each

_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` of 64-bit Linux: type, whence, start, length, pid (fcntl(2))."""


def holder(path: str) -> str | None:
    """Return the process that holds a POSIX lock on the file at `path` as a phrase; None if it is free.

    Raises OSError where the file is not there or cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else _described(pid)


def _described(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            name = file.read().strip()
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return f"pid {pid}"
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"user id {uid}"
    return f"pid {pid} ({name}) of {user}"


@reader_of_each("package_lock.holder")
def lock_holder(path: str) -> str | None:
    """Return the process that holds the lock at `path` as a phrase; None if it is free."""
    return holder(path)
