"""Find the leftover processes of one run on a node and, on request, end them.

For runs whose agent cannot prove their end: it was killed or stopped, its archive is gone, or the node was restarted.
The controller sends this program, so that the node needs neither an agent nor files of the run.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from pylaunch.agent.shared import clean, container_engines, processes, record, run_processes
from pylaunch.base.layout import AgentError, NodeRoot, RunDirectory, open_root

AGENT_ENDS_S = 5.0
"""Time for an agent to exit after the grace period of its ranks."""

POLL_S = 0.05
MOST_LISTED = 20


def end_all(root: NodeRoot, directory: RunDirectory, grace_s: float) -> list[str]:
    """End all processes of the run, and return those that could not be ended.

    A live agent gets SIGTERM and SIGCONT and stops the run as usual: SIGTERM to the ranks, SIGKILL after the grace
    period. Remaining processes, and those without an agent, are ended here.
    """
    signalled = run_processes.agents(directory, processes.mine())
    for agent in signalled:
        processes.send(agent, signal.SIGTERM)
        processes.send(agent, signal.SIGCONT)
    until = time.monotonic() + grace_s + AGENT_ENDS_S
    while signalled and time.monotonic() < until and run_processes.agents(directory, processes.mine()):
        time.sleep(POLL_S)
    left = processes.end_all(lambda: run_processes.of_run(root, directory), 0.0 if signalled else grace_s)
    return [str(process) for process in left]


def main(root: str, run: str, node: str, *, began: float, grace_s: float | None) -> None:
    """Print the processes of `run`, one phrase per process, and those left once they were ended.

    `node`: name in the run; another node of it proves nothing. `began`: time of the run, by which its files are older
    than those that this node keeps. Without `grace_s` nothing is ended.
    """
    print(json.dumps(_proof(root, run, node, began, grace_s)))


def _proof(template: str, run: str, node: str, began: float, grace_s: float | None) -> dict[str, Any]:
    try:
        root = open_root(template, make=False)
        directory = root.run(run)
    except AgentError as error:
        return {"error": str(error)}
    task = record.read_task(directory)
    if task is not None and task.host != node:
        return {"error": f"the address leads to another node of the run: {task.host}"}
    found = [_described(process, directory) for process in run_processes.of_run(root, directory)]
    left = list(found) if grace_s is None or not found else end_all(root, directory, grace_s)
    if grace_s is not None:
        left += container_engines.remove_container(directory)
    return {
        "known": bool(found) or os.path.isdir(directory.path) or _is_outdated(root, began),
        "restarted": run_processes.was_restarted(directory),
        "found": found[:MOST_LISTED],
        "left": left[:MOST_LISTED],
    }


def _is_outdated(root: NodeRoot, began: float) -> bool:
    """Return True if this node may have removed the files of a run that began then, for those of newer runs."""
    kept = root.all_runs()
    return len(kept) >= clean.KEPT_RUNS and began < os.stat(kept[0].path).st_mtime


def _described(process: processes.Process, directory: RunDirectory) -> str:
    if not run_processes.agents(directory, [process]):
        return str(process)
    stopped = run_processes.stopped_agent(directory, [process])
    return stopped or f"the agent of run {directory.run} (pid {process.pid})"
