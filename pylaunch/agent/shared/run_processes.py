"""Processes of one run on this node besides its ranks: its agent, and the helpers of its connections.

The agent of a run is the process that has its lock file open. A helper relays messages between an SSH connection and
the agent; it carries no mark and is recognized by its command line. Either can be stopped (SIGSTOP): then the ranks
continue, nobody answers, and the lock still shows a live run.
"""

from __future__ import annotations

import re
from typing import Iterable, Sequence

from pylaunch.agent.shared import processes
from pylaunch.agent.shared.layout import NodeRoot, RunDirectory

STOPPED = "T"
"""State of a process after SIGSTOP; a traced process has another state."""


def agents(directory: RunDirectory, alive: Iterable[processes.Process]) -> list[processes.Process]:
    """Return the live agent of the run in `alive`, if any; briefly also a process that tests the lock."""
    lock = directory.file("agent.lock")
    return [process for process in alive if lock in (processes.open_files(process.pid) or ())]


def helpers(
    root: NodeRoot, alive: Iterable[processes.Process], agents: Sequence[processes.Process]
) -> list[tuple[processes.Process, str]]:
    """Return those of `alive` that are helpers of connections to runs under `root`, each with its run.

    `agents` have the same command lines and are excluded.
    """
    found = []
    for process in alive:
        if root.agents not in process.command:
            continue
        match = re.search(
            re.escape(root.agents) + r"/\S+\.pyz (?:open|attach|ship|hold) .*--run (\S+)$", process.command
        )
        if match is not None and process not in agents:
            found.append((process, match[1]))
    return found


def stopped_agent(directory: RunDirectory, alive: Iterable[processes.Process]) -> str | None:
    """Return a phrase that names the agent of the run if it is in `alive` and stopped, else None."""
    for process in agents(directory, (each for each in alive if each.state == STOPPED)):
        return f"the agent of run {directory.run} (pid {process.pid}) is stopped (SIGSTOP)"
    return None


def of_run(root: NodeRoot, directory: RunDirectory) -> list[processes.Process]:
    """Return every process of the run: its agent, marked processes, descendants of both, and stopped helpers."""
    alive = [process for process in processes.mine() if process.state != "Z"]
    leading = {process.pid for process in agents(directory, alive)}
    leading |= {each.pid for each in alive if processes.run_of(each.pid, root.path) == directory.run}
    family = leading | processes.descendants(alive, leading)
    known = [process for process in alive if process.pid in family]
    return known + [
        process
        for process, run in helpers(root, alive, known)
        if run == directory.run and process.state == STOPPED and process.pid not in family
    ]
