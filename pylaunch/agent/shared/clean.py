"""Remove leftovers of dead runs on this node. Ends only processes marked with a run whose supervisor is dead."""

from __future__ import annotations

import glob
import os

from pylaunch.agent.shared import container_engines, processes, rank_files, record, run_processes
from pylaunch.base.dataclass import dataclass, field
from pylaunch.base.layout import SOCKETS, NodeRoot, RunDirectory

KEPT_RUNS = 20
KEPT_ARCHIVES = 3
GRACE_S = 2.0


@dataclass
class Cleaned:
    """Result of a cleanup, one phrase per item: removed, and left because it could not be removed."""

    removed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    awaited: list[str] = field(default_factory=list)
    """Containers that are not there, and that the daemon of their engine may still make."""


def clean(root: NodeRoot, *, dry_run: bool = False) -> Cleaned:
    """End marked processes of dead runs, remove their sockets, and keep only the logs of the last runs."""
    cleaned = Cleaned()
    _end_orphans(root, cleaned, dry_run=dry_run)

    def remove(path: str, phrase: str) -> None:
        cleaned.removed.append(phrase)
        if not dry_run:
            rank_files.remove(path)

    dead = []
    for directory in root.all_runs():
        held = run_processes.lock(directory)
        if held is None:
            continue
        of_run = f"of dead run {directory.run}"
        try:
            for name in SOCKETS:
                if os.path.lexists(directory.file(name)):
                    remove(directory.file(name), f"socket {name} {of_run}")
            if short := _short_directory(directory):
                remove(short, f"{short} {of_run}")
            if not _without_container(directory, cleaned, dry_run=dry_run):
                continue  # Without the files of the run, its container would not be found again.
            if _never_started(directory):
                remove(directory.path, f"files of run {directory.run}")
            else:
                dead.append(directory)
        finally:
            os.close(held)
    for directory in dead[:-KEPT_RUNS]:
        remove(directory.path, f"files of run {directory.run}")
    return cleaned


def _without_container(directory: RunDirectory, cleaned: Cleaned, *, dry_run: bool) -> bool:
    """Remove the container of a run, and return whether it is proven that there is none."""
    state, container = (container_engines.look if dry_run else container_engines.removal)(directory)
    found = {
        container_engines.THERE: cleaned.removed,
        container_engines.LEFT: cleaned.left,
        container_engines.AWAITED: cleaned.awaited,
    }
    if state in found:
        found[state].append(container)
    return state in (container_engines.THERE, container_engines.ABSENT)


def _end_orphans(root: NodeRoot, cleaned: Cleaned, *, dry_run: bool) -> None:
    def find() -> list[processes.Process]:
        return [process for process, _ in run_processes.orphans(root, processes.mine())]

    orphans = run_processes.orphans(root, processes.mine())
    phrases = {process: f"{process} of dead run {run}" for process, run in orphans}
    left = processes.end_all(find, GRACE_S) if phrases and not dry_run else []
    survives = {process.pid for process in left}
    cleaned.removed += [phrase for process, phrase in phrases.items() if process.pid not in survives]
    cleaned.left += [f"{process}: it survives SIGKILL" for process in left]


def _short_directory(directory: RunDirectory) -> str:
    """Return the short directory of a run, if it is there and ours; "" without one."""
    try:
        path = os.readlink(directory.short)
        is_own = os.path.dirname(path) == "/tmp" and os.lstat(path).st_uid == os.getuid()
    except OSError:
        return ""
    return path if is_own and os.path.basename(path).startswith("pylaunch-") else ""


def _never_started(directory: RunDirectory) -> bool:
    outcome = record.read_outcome(directory)
    return outcome is not None and outcome.outcome in ("refused", "aborted")


def prune_archives(root: NodeRoot, current: str) -> list[str]:
    """Remove all agent archives but the newest, `current` and those in use by live processes; return their paths."""
    used = " ".join([root.archive(current), *(process.command for process in processes.mine())])
    removed = [path for path in root.all_archives()[:-KEPT_ARCHIVES] if path not in used]
    for path in removed:
        for each in (path, *glob.glob(glob.escape(path) + ".*")):  # Compiled modules, and partial uploads.
            rank_files.remove(each)
    return removed
