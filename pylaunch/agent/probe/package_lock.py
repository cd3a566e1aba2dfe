"""Who holds a lock of the package manager: apt and dpkg wait for it, in silence, for minutes."""

from __future__ import annotations

import fcntl
import os
import pwd
import struct
from typing import Optional

_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` of 64-bit Linux: type, whence, start, length, pid (fcntl(2))."""


def holder(path: str) -> Optional[str]:
    """Return the process that holds a POSIX lock on the file at `path`, in words; None where nobody does.

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
        with open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as file:
            name = file.read().strip()
        uid = os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return "pid %d" % pid
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = "user id %d" % uid
    return "pid %d (%s) of %s" % (pid, name, user)
