"""The processes of one run on this node that are not its ranks' own: its agent, and the helpers of its connections.

The agent of a run is whoever has its lock file open. A helper passes words between an SSH connection and the agent; it
carries no mark, and is known by the words that it was started with. Either can be stopped (SIGSTOP): then its ranks run
on, nobody answers, and the lock still says that the run is live.
"""

from __future__ import annotations

import re

from pylaunch.agent.shared import processes
from pylaunch.agent.shared.layout import NodeRoot, RunDirectory

STOPPED = "T"
"""The state of a process that got SIGSTOP; one that is traced has another."""


def agents(directory: RunDirectory) -> list[processes.Process]:
    """The live agent of the run, if there is one; for an instant also who looks whether there is."""
    lock = directory.file("agent.lock")
    return [process for process in processes.mine() if lock in (processes.open_files(process.pid) or ())]


def helpers(root: NodeRoot, agents: list[processes.Process]) -> list[tuple[processes.Process, str]]:
    """Helpers of connections to runs under `root`, with the run of each; `agents` have the same words, and are none."""
    words = re.compile(re.escape(root.agents) + r"/\S+\.pyz (?:open|attach|ship|hold) .*--run (\S+)$")
    found = []
    for process in processes.mine():
        told = words.search(process.command)
        if told is not None and process not in agents:
            found.append((process, told[1]))
    return found


def stopped_agent(directory: RunDirectory) -> str | None:
    """The agent of the run in words, if it is stopped."""
    for process in agents(directory):
        if process.state == STOPPED:
            return f"the agent of run {directory.run} (pid {process.pid}) is stopped (SIGSTOP)"
    return None


def of_run(root: NodeRoot, directory: RunDirectory) -> list[processes.Process]:
    """Every process of the run: its agent, what carries its mark, what descends from these, and stopped helpers."""
    alive = [process for process in processes.mine() if process.state != "Z"]
    leading = {process.pid for process in agents(directory)}
    leading |= {each.pid for each in alive if processes.run_of(each.pid, root.path) == directory.run}
    family = leading | processes.descendants(alive, leading)
    known = [process for process in alive if process.pid in family]
    return known + [
        process
        for process, run in helpers(root, known)
        if run == directory.run and process.state == STOPPED and process.pid not in family
    ]
