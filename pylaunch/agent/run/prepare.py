"""Prepare one run on this node: clean up, check, take the port and the devices, fork everything up to the gate.

This is all that is slow or may fail. A node that cannot take part reports every reason at once and keeps nothing.
"""

from __future__ import annotations

from pylaunch import protocol
from pylaunch.agent.run import node_checks, node_environment, shipped_code, stop_request
from pylaunch.agent.run.holdings import Holdings
from pylaunch.agent.run.ranks.worker_group import WorkerGroup
from pylaunch.agent.run.run import Run
from pylaunch.agent.shared import clean
from pylaunch.agent.shared.event_loop import EventLoop
from pylaunch.agent.shared.record import Record
from pylaunch.base.layout import NodeRoot

CONTINUE = "to end it: pylaunch stop RUN; to resume it, there: kill -CONT PID"


class RefusedError(Exception):
    """This node cannot take part in the run."""

    def __init__(self, reasons: list[protocol.Reason]) -> None:
        super().__init__(reasons)
        self.reasons = reasons


def prepare_run(message: protocol.Prepare, root: NodeRoot, record: Record, loop: EventLoop) -> tuple[Run, list[str]]:
    """Return the prepared run, and the leftovers of dead runs that were removed.

    Raises RefusedError with all reasons; nothing is held then.
    """
    stopped = stop_request.requested(root, message.task.run)
    if stopped is not None:
        raise RefusedError([protocol.Reason(stop_request.CODE, stopped)])
    cleaned = clean.clean(root)
    try:
        task = shipped_code.with_tree(node_environment.completed(message.task), root)
    except node_environment.NodeEnvironmentError as error:
        raise RefusedError([error.reason]) from None
    reasons = [protocol.Reason("leftovers-stay", f"{left} of a dead run survives SIGKILL") for left in cleaned.left]
    reasons += [
        protocol.Reason("agent-stopped", f"{stopped}; its ranks may run on", CONTINUE) for stopped in cleaned.stopped
    ]
    holdings = Holdings(task, root)
    reasons += [*node_checks.problems(task, record.directory), *holdings.take()]
    workers = WorkerGroup(protocol.Prepare(task, message.secrets), root, record.directory)
    try:
        if not reasons:
            reasons += [protocol.Reason("cannot-start", problem) for problem in workers.fork_to_gate()]
    except OSError as error:
        reasons.append(protocol.Reason("cannot-fork", f"a process cannot be started: {error}"))
    if reasons:
        workers.kill_at_gate()
        holdings.drop()
        raise RefusedError(reasons)
    return Run(workers, holdings, record, loop), cleaned.removed
