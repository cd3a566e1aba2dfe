"""Prove, on the node itself, that nothing of one run is left there; where that is wanted, end what is.

For runs that no agent of theirs can prove to be over: it was killed or stopped, its archive is gone, or the node was
restarted. This is sent to the node, so that neither an agent nor files of the run are needed there.
"""

from __future__ import annotations

import json
import signal
import time
from typing import Any

from pylaunch.agent.shared import processes, rank_files, run_processes
from pylaunch.agent.shared.layout import AgentError, NodeRoot, RunDirectory, open_root

AGENT_ENDS_S = 5.0
"""Time that an agent has to end beyond the grace period of its ranks."""

POLL_S = 0.05
MOST_LISTED = 20


def was_restarted(directory: RunDirectory) -> bool:
    """This node was started again after the run had begun."""
    try:
        began = rank_files.read(directory.file("boot"), 100).decode("ascii", "replace").strip()
    except OSError:
        return False
    return bool(began) and began != processes.boot_id()


def end_all(root: NodeRoot, directory: RunDirectory, grace_s: float) -> list[str]:
    """End all of the run, and what could not be ended.

    A live agent gets SIGTERM and SIGCONT and ends the run as on any stop: SIGTERM to the ranks,
    SIGKILL after the grace. What it leaves, and what has no agent, is ended by identity.
    """
    told = run_processes.agents(directory)
    for agent in told:
        processes.send(agent, signal.SIGTERM)
        processes.send(agent, signal.SIGCONT)
    until = time.monotonic() + grace_s + AGENT_ENDS_S
    while told and time.monotonic() < until and run_processes.agents(directory):
        time.sleep(POLL_S)
    left = processes.end_all(lambda: run_processes.of_run(root, directory), 0.0 if told else grace_s)
    return [str(process) for process in left]


def main(root: str, run: str, *, end: bool, grace_s: float) -> None:
    """Print the processes of `run` that were found and, after `end` ended them, those that are left, a phrase each."""
    print(json.dumps(_proof(root, run, end=end, grace_s=grace_s)))


def _proof(template: str, run: str, *, end: bool, grace_s: float) -> dict[str, Any]:
    try:
        root = open_root(template, make=False)
        directory = root.run(run)
    except AgentError as error:
        return {"error": str(error)}
    found = [_described(process, directory) for process in run_processes.of_run(root, directory)]
    left = end_all(root, directory, grace_s) if end and found else list(found)
    return {"restarted": was_restarted(directory), "found": found[:MOST_LISTED], "left": left[:MOST_LISTED]}


def _described(process: processes.Process, directory: RunDirectory) -> str:
    if process in run_processes.agents(directory):
        return run_processes.stopped_agent(directory) or f"the agent of run {directory.run} (pid {process.pid})"
    return str(process)
