"""The lock of a run's supervisor on this node: it is held for as long as the supervisor lives."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os

from pylaunch.agent.shared import rank_files
from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import RunDirectory


@dataclass(frozen=True)
class LockHolder:
    """Supervisor that has, or had, the lock of a run."""

    pid: int
    since: float
    """Seconds since the epoch."""


def lock(directory: RunDirectory, kind: int = fcntl.LOCK_EX) -> int | None:
    """Take the lock of a run's supervisor; None while the supervisor lives, or if the run is gone.

    LOCK_SH excludes a supervisor and others who take LOCK_EX, but not others who take LOCK_SH.
    Closing the descriptor releases the lock. None also if the lock path is not a regular file: then nothing proves that
    the supervisor is dead.
    """
    try:
        held = rank_files.open_regular(directory.file("agent.lock"), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return None
        # A disk without free inodes has no lock file, so nobody holds one: lock the directory instead.
        held = os.open(directory.path, os.O_RDONLY | os.O_DIRECTORY)
    return held if _has_locked(held, kind) else None


def is_live(directory: RunDirectory) -> bool:
    """Return True if the run has a live supervisor. Writes nothing: a node may have thousands of runs."""
    try:
        held = rank_files.open_regular(directory.file("agent.lock"))
    except FileNotFoundError:
        try:
            held = os.open(directory.path, os.O_RDONLY | os.O_DIRECTORY)  # What `lock` locks on a full disk.
        except OSError:
            return False
    except OSError:
        return os.path.isdir(directory.path)  # Nothing proves that the supervisor is dead.
    if not _has_locked(held, fcntl.LOCK_SH):  # Two that look at the same moment do not see each other.
        return True
    os.close(held)
    return False


def _has_locked(held: int, kind: int) -> bool:
    """Lock the file `held`; close it and return False if another process has locked it."""
    try:
        fcntl.flock(held, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        return False
    return True


def sign(held: int) -> None:
    """Write the process id of this supervisor into its lock, for those who find it dead."""
    with contextlib.suppress(OSError):  # A full disk, or the lock is the directory.
        os.ftruncate(held, 0)
        os.pwrite(held, b"%d\n" % os.getpid(), 0)


def last_holder(directory: RunDirectory) -> LockHolder | None:
    """Return the supervisor that last had the lock; None if it is not known."""
    path = directory.file("agent.lock")
    try:
        pid = int(rank_files.read(path, 20))
        return LockHolder(pid, os.lstat(path).st_mtime)
    except (OSError, ValueError):
        return None
