"""Spares: check them before a run starts. Nothing is held for the run on them until an attempt uses them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from pylaunch.model.plan import RunPlan, base_of
from pylaunch.runs.connect.agent_link import enter
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.connect.interruptible import InterruptSource, on_fleet
from pylaunch.runs.follow.run_events import Emitter
from pylaunch.runs.prepare.install import installer
from pylaunch.runs.prepare.session import Launch, NodesRefusedError, Session
from pylaunch.transport.connections import connector_of
from pylaunch.transport.process import spawn

LEAVE_S = 2.0
"""Time that a connection to a spare may take to end."""


def vet(launch: Launch, emit: Emitter, source: InterruptSource) -> Mapping[str, tuple[str, ...]]:
    """Prepare the nodes of `launch`, release none, and return the reasons of those that refuse."""

    async def prepare(fleet: Fleet) -> Mapping[str, tuple[str, ...]]:
        try:
            await Session(launch, fleet, emit).prepare(installer(launch.plan, launch.archive))
        except NodesRefusedError as refused:
            return refused.reasons
        return {}

    return on_fleet(launch.plan, launch.archive.version, prepare, source=source)


@contextlib.asynccontextmanager
async def in_their_jobs(plan: RunPlan, agent: str) -> AsyncIterator[None]:
    """Keep the daemons of Slurm jobs on the spares of `plan` alive for the body: without a run they would end."""
    hosts = [host for host in plan.spares if host.slurm_job is not None]
    words = {host: enter(host, agent, "keep", base_of(plan.run)) for host in hosts}
    children = [await spawn(connector_of(host, plan.known_hosts).argv(words[host])) for host in hosts]
    try:
        yield
    finally:
        await asyncio.gather(*(child.leave(LEAVE_S) for child in children))
