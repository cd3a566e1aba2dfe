"""End leftover processes and take the readings again in one program, so that the readings prove the cleanup."""

from __future__ import annotations

import json
import sys
from typing import Any, Mapping, Sequence, Tuple

from pylaunch.agent.probe import runtime
from pylaunch.agent.shared import clean, processes
from pylaunch.base.layout import AgentError, open_root

GRACE_S = 5.0
"""Time from SIGTERM to SIGKILL for processes of dead runs: enough to flush files, not to finish a checkpoint."""

Identity = Tuple[int, int]
"""Process id and start time in clock ticks since boot; together they identify a process."""


def end(targets: Sequence[Identity]) -> tuple[list[str], list[str]]:
    """End the processes `targets` and their descendants; return phrases for those that ended and those that are left.

    A reused process id is not signalled, nor is an ancestor of another user's process.
    """
    family: dict[Identity, processes.Process] = {}

    def find() -> list[processes.Process]:
        alive = [process for process in processes.mine() if process.state != "Z"]
        wanted = {tuple(target) for target in targets} | set(family)
        roots = [process.pid for process in alive if (process.pid, process.started) in wanted]
        pids = {*roots, *processes.descendants(alive, roots)} - processes.ancestors_of_others()
        found = [process for process in alive if process.pid in pids]
        family.update({(process.pid, process.started): process for process in found})
        return found

    find()
    left = processes.end_all(find, GRACE_S)
    ended = [str(process) for process in family.values() if process not in left]
    return ended, [str(process) for process in left]


def main(root: str, targets: Sequence[Identity], *, dry_run: bool, questions: Mapping[str, Any]) -> None:
    """Clean up after dead runs, end `targets`, and print both results with new readings for `questions`."""
    cleaned = clean.Cleaned()
    try:
        cleaned = clean.clean(open_root(root, make=False), dry_run=dry_run)
    except AgentError as error:
        cleaned.left.append(str(error))
    ended, stays = end(targets) if targets else ([], [])
    done = {"removed": cleaned.removed, "left": cleaned.left, "stopped": cleaned.stopped}
    found = {name: json.loads(text) for name, text in runtime.readings(questions).items()}
    json.dump({**done, "ended": ended, "stays": stays, "readings": found}, sys.stdout)
    print()
