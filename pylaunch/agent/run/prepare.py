"""Prepare one run on this node: clean up, check, take the port and the devices, fork everything up to the gate.

This is all that is slow or may fail. A node that cannot take part reports every reason at once and keeps nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylaunch import protocol
from pylaunch.agent.run import checks, environment, gpu_checks, shipped_code
from pylaunch.agent.run.environment import RefusedError
from pylaunch.agent.run.holdings import Holdings
from pylaunch.agent.run.run import LEFTOVER_GRACE_S, Run
from pylaunch.agent.run.worker_group import WorkerGroup
from pylaunch.agent.shared import clean, processes
from pylaunch.agent.shared.essentials import essentials
from pylaunch.agent.shared.event_loop import EventLoop
from pylaunch.agent.shared.record import STOP_REQUESTED, Record, stop_requested
from pylaunch.base.dataclass import replace
from pylaunch.base.layout import NodeRoot
from pylaunch.protocol.node_task import CONTAINER_IMAGE, GPU_MODELS

if TYPE_CHECKING:
    from pylaunch.agent.containers import JoinableContainer


IN_IMAGE = "the image must have it; name the interpreter of the image: --python PATH"


def prepare_run(
    message: protocol.Prepare, root: NodeRoot, record: Record, loop: EventLoop
) -> tuple[Run, protocol.Ready]:
    """Return the run at the gate and its `Ready`. Raises RefusedError with all reasons; nothing is held then."""
    stopped = stop_requested(root, message.task.run)
    if stopped is not None:
        raise RefusedError(protocol.Reason(STOP_REQUESTED, stopped))
    cleaned = clean.clean(root)
    task = shipped_code.with_tree(environment.completed(message.task), root)
    reasons = [protocol.Reason("leftovers-stay", f"of a dead run, could not remove {left}") for left in cleaned.left]
    holdings = Holdings(task, root)
    gpus = gpu_checks.GpuCheck(task)
    container: JoinableContainer | None = None
    if task.container is not None:
        from pylaunch.agent.containers import start_container  # noqa: PLC0415 -- few runs need it

        try:
            container = start_container(task, root)
            task = replace(task, env={**container.env, **task.env})
        except RefusedError as refused:
            reasons += refused.reasons
    reasons += checks.problems(task, record.directory)
    taken = holdings.take()
    reasons += gpus.problems(is_leased=any(reason.code == "device-leased" for reason in taken))
    reasons += taken
    workers = WorkerGroup(protocol.Prepare(task, message.secrets), root, record.directory, container)
    try:
        if not reasons:
            hint = "" if container is None else IN_IMAGE
            reasons += [protocol.Reason("cannot-start", each, hint) for each in dict.fromkeys(workers.fork_to_gate())]
    except OSError as error:
        reasons.append(protocol.Reason("cannot-fork", f"a process cannot be started: {error}"))
    if reasons:
        workers.kill_at_gate()
        hint = f"pylaunch clean --limit {task.host}"
        left = workers.end_container()
        if task.container is not None:
            stay = processes.end_all(workers.all_processes, LEFTOVER_GRACE_S)
            left += [f"{each}: it survives SIGKILL" for each in stay]
        reasons += [protocol.Reason("leftovers-stay", f"could not remove {each}", hint) for each in left]
        workers.remove_what_they_used()
        holdings.drop()
        raise RefusedError(*reasons)
    python = task.python if container is None else ""
    facts, libraries = essentials(python)
    if container is not None:
        facts[CONTAINER_IMAGE] = container.digest
    if gpus.models:
        facts[GPU_MODELS] = gpus.models
    run = Run(workers, holdings, record, loop)
    port = holdings.port if task.choose_port else None
    return run, protocol.Ready(cleaned.removed, facts, rendezvous_port=port, libraries=libraries)
