"""Clean up a node and prove it: of one run, of the runs that are over, and of processes that a person chose.

The controller sends this program, so that the node needs neither an agent nor files of the run: the agent may have been
killed or stopped, its archive may be gone, or the node was restarted. New readings prove what it did.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any, Mapping, Sequence, Tuple

from pylaunch.agent.probe import runtime
from pylaunch.agent.shared import clean, container_engines, processes, record, run_processes
from pylaunch.base.layout import AgentError, NodeRoot, RunDirectory, open_root
from pylaunch.protocol.readings.hosts import CleanupReading

GRACE_S = 5.0
"""Time from SIGTERM to SIGKILL for processes that a person chose: to flush files, not to finish a checkpoint."""

AGENT_ENDS_S = 5.0
"""Time for an agent to exit after the grace period of its ranks."""

POLL_S = 0.05
MOST_LISTED = 20

Identity = Tuple[int, int]
"""Process id and start time in clock ticks since boot; together they identify a process."""


def of_dead_runs(root: str, targets: Sequence[Identity], *, dry_run: bool, questions: Mapping[str, Any]) -> None:
    """Clean up after dead runs, end `targets`, and print both with new readings for `questions`."""
    found = _nothing()
    try:
        cleaned = clean.clean(open_root(root, make=False), dry_run=dry_run)
        found.update({"removed": cleaned.removed, "left": [*cleaned.left, *cleaned.awaited]})
    except AgentError as error:
        found["left"] = [str(error)]
    if targets:
        ended, survives = end_targets(targets)
        found.update({"ended": ended, "survives": survives})
    readings = {name: json.loads(text) for name, text in runtime.readings(questions).items()}
    print(json.dumps({**found, "readings": readings}))


def of_run(root: str, run: str, node: str, *, began: float, grace_s: float | None) -> None:
    """Print the processes of `run` that were ended, and those that are left: without `grace_s`, all of them.

    `node`: name in the run; another node of it proves nothing. `began`: time of the run, by which its files are older
    than those that this node keeps.
    """
    found = _nothing()
    try:
        found.update(_of_run(open_root(root, make=False), run, node, began, grace_s))
    except AgentError as error:
        found["error"] = str(error)
    print(json.dumps(found))


def _nothing() -> CleanupReading:
    return {
        "removed": [], "left": [], "survives": [], "ended": [], "known": True, "restarted": False, "error": "",
    }  # fmt: skip


def _of_run(root: NodeRoot, run: str, node: str, began: float, grace_s: float | None) -> CleanupReading:
    """Raises AgentError for the id of no run, and on another node of it."""
    directory = root.run(run)
    task = record.read_task(directory)
    if task is not None and task.host != node:
        raise AgentError(f"the address leads to another node of the run: {task.host}")
    there = [_described(process, directory) for process in run_processes.of_run(root, directory)]
    left = list(there) if grace_s is None or not there else end_run(root, directory, grace_s)
    look = container_engines.kept_container if grace_s is None else container_engines.remove_container
    left += look(directory)
    return {
        **_nothing(),
        "known": bool(there) or os.path.isdir(directory.path) or _is_outdated(root, began),
        "restarted": run_processes.was_restarted(directory),
        "ended": [each for each in there if each not in left][:MOST_LISTED],
        "left": left[:MOST_LISTED],
    }


def end_run(root: NodeRoot, directory: RunDirectory, grace_s: float) -> list[str]:
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
    return [_described(process, directory) for process in left]


def end_targets(targets: Sequence[Identity]) -> tuple[list[str], list[str]]:
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


def _is_outdated(root: NodeRoot, began: float) -> bool:
    """Return True if this node may have removed the files of a run that began then, for those of newer runs."""
    kept = root.all_runs()
    return len(kept) >= clean.KEPT_RUNS and began < os.stat(kept[0].path).st_mtime


def _described(process: processes.Process, directory: RunDirectory) -> str:
    if not run_processes.agents(directory, [process]):
        return str(process)
    stopped = run_processes.stopped_agent(directory, [process])
    return stopped or f"the agent of run {directory.run} (pid {process.pid})"
