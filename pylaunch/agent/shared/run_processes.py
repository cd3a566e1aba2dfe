"""Supervisor of a run on this node, found by its lock, and other processes of the run besides its ranks.

The supervisor, or agent, of a run holds the lock of its file for as long as it lives. It can be stopped (SIGSTOP): then
the ranks continue, nobody answers, and the lock still shows a live run.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable

from pylaunch.agent.shared import processes, rank_files
from pylaunch.base.layout import RUN_ID, NodeRoot, RunDirectory


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


STOPPED = "T"
"""State of a process after SIGSTOP; a traced process has another state."""


def agents(directory: RunDirectory, alive: Iterable[processes.Process]) -> list[processes.Process]:
    """Return the live agent of the run in `alive`, if any; briefly also a process that tests the lock."""
    lock = directory.file("agent.lock")
    return [process for process in alive if lock in (processes.open_files(process.pid) or ())]


def stopped_agent(directory: RunDirectory, alive: Iterable[processes.Process]) -> str | None:
    """Return a phrase that names the agent of the run if it is in `alive` and stopped, else None."""
    for process in agents(directory, (each for each in alive if each.state == STOPPED)):
        return f"the agent of run {directory.run} (pid {process.pid}) is stopped (SIGSTOP)"
    return None


def was_restarted(directory: RunDirectory) -> bool:
    """Return True if this node was rebooted after the run had begun."""
    try:
        began = rank_files.read(directory.file("boot"), 100).decode("ascii", "replace").strip()
    except OSError:
        return False
    return bool(began) and began != processes.boot_id()


def of_run(root: NodeRoot, directory: RunDirectory) -> list[processes.Process]:
    """Return every process of the run: its agent, marked processes, and descendants of both."""
    alive = [process for process in processes.mine() if process.state != "Z"]
    leading = {process.pid for process in agents(directory, alive)}
    leading |= {each.pid for each in alive if processes.run_of(each.pid, root.path) == directory.run}
    family = leading | processes.descendants(alive, leading)
    return [process for process in alive if process.pid in family]


def orphans(root: NodeRoot, alive: list[processes.Process]) -> list[tuple[processes.Process, str]]:
    """Return those of `alive` that carry the mark of a dead run, with that run."""
    marked = [(process, processes.run_of(process.pid, root.path)) for process in alive]
    found = [(process, run) for process, run in marked if run and RUN_ID.match(run)]
    dead = {run for run in {run for _, run in found} if not is_live(root.run(run))}
    return [(process, run) for process, run in found if run in dead]
