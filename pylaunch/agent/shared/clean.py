"""Remove leftovers of dead runs on this node. Ends only processes marked with a run whose supervisor is dead."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import shutil

from pylaunch.agent.shared import processes, rank_files, record, run_processes
from pylaunch.agent.shared.dataclass import dataclass, field
from pylaunch.agent.shared.layout import NEXT_SOCKET, RUN_ID, SOCKETS, NodeRoot, RunDirectory

KEPT_RUNS = 20
KEPT_ARCHIVES = 3
GRACE_S = 2.0


@dataclass
class Cleaned:
    """Result of a cleanup, one phrase per item: removed, and left because it could not be removed."""

    removed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    """Agents of live runs that are stopped by SIGSTOP and answer nobody."""


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
    try:
        fcntl.flock(held, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        return None
    return held


def is_live(directory: RunDirectory) -> bool:
    """Return True if the run has a live supervisor."""
    if not os.path.isdir(directory.path):
        return False
    held = lock(directory, fcntl.LOCK_SH)  # Two that look at the same moment do not see each other.
    if held is None:
        return True
    os.close(held)
    return False


def clean(root: NodeRoot, *, dry_run: bool = False) -> Cleaned:
    """End marked processes of dead runs, remove their sockets, and keep only the logs of the last runs."""
    cleaned = Cleaned()
    alive = processes.mine()
    _end_orphans(root, alive, cleaned, dry_run=dry_run)
    dead = []
    for directory in root.all_runs():
        held = lock(directory)
        if held is None:
            stopped = run_processes.stopped_agent(directory, alive)
            cleaned.stopped += [stopped] if stopped is not None else []
            continue
        try:
            _remove_sockets(directory, cleaned, dry_run=dry_run)
            if _never_started(directory):
                _remove(directory, cleaned, dry_run=dry_run)
            else:
                dead.append(directory)
        finally:
            os.close(held)
    for directory in dead[:-KEPT_RUNS]:
        _remove(directory, cleaned, dry_run=dry_run)
    return cleaned


def _end_orphans(root: NodeRoot, alive: list[processes.Process], cleaned: Cleaned, *, dry_run: bool) -> None:
    def find() -> list[processes.Process]:
        return [process for process, _ in orphans(root, processes.mine())]

    phrases = {process: f"{process} of dead run {run}" for process, run in orphans(root, alive)}
    left = processes.end_all(find, GRACE_S) if phrases and not dry_run else []
    cleaned.removed += [phrase for process, phrase in phrases.items() if process not in left]
    cleaned.left += [str(process) for process in left]


def orphans(root: NodeRoot, alive: list[processes.Process]) -> list[tuple[processes.Process, str]]:
    """Return those of `alive` that carry the mark of a dead run, and its stopped connection helpers, with their run."""
    marked = [(process, processes.run_of(process.pid, root.path)) for process in alive]
    found = [(process, run) for process, run in marked if run and RUN_ID.match(run)]
    helpers = run_processes.helpers(root, alive, [process for process, _ in found])
    found += [(process, run) for process, run in helpers if process.state == run_processes.STOPPED]
    dead = {run for run in {run for _, run in found} if RUN_ID.match(run) and not is_live(root.run(run))}
    return [(process, run) for process, run in found if run in dead]


def _remove_sockets(directory: RunDirectory, cleaned: Cleaned, *, dry_run: bool) -> None:
    for name in (*SOCKETS, NEXT_SOCKET):
        if os.path.lexists(directory.file(name)):
            cleaned.removed.append(f"socket {name} of dead run {directory.run}")
            if not dry_run:
                with contextlib.suppress(OSError):
                    os.unlink(directory.file(name))


def _never_started(directory: RunDirectory) -> bool:
    outcome = record.read_outcome(directory)
    return outcome is not None and outcome.outcome in ("refused", "aborted")


def _remove(directory: RunDirectory, cleaned: Cleaned, *, dry_run: bool) -> None:
    cleaned.removed.append(f"files of run {directory.run}")
    if not dry_run:
        shutil.rmtree(directory.path, ignore_errors=True)


def prune_archives(root: NodeRoot, current: str) -> list[str]:
    """Remove all agent archives but the newest, `current` and those in use by live processes; return their paths."""
    used = " ".join([root.archive(current), *(process.command for process in processes.mine())])
    removed = [path for path in root.all_archives()[:-KEPT_ARCHIVES] if path not in used]
    for path in removed:
        _unlink(path, *beside(path))
    return removed


def forget_compiled(archive: str) -> None:
    """Remove the compiled files of an archive that was replaced."""
    _unlink(*(path for path in beside(archive) if not path.rpartition(".")[2].isdecimal()))


def beside(archive: str) -> list[str]:
    """Return the files beside an archive: compiled modules per Python, and partial uploads per process."""
    return glob.glob(glob.escape(archive) + ".*")


def _unlink(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
