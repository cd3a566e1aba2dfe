"""One run from planned to ended, on an event loop of its own, with Ctrl-C taken care of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pylaunch.launch.connect.agent_link import AgentVersion
from pylaunch.launch.connect.fleet import Fleet
from pylaunch.launch.follow.run_follower import LAST_S, RunFollower, rank_streams
from pylaunch.launch.follow.watcher import Watcher
from pylaunch.launch.start.archive import AgentArchive
from pylaunch.launch.start.install import installer
from pylaunch.launch.start.payload import Payload
from pylaunch.launch.start.queue import Turn, in_turn
from pylaunch.launch.start.session import NodesRefusedError, PreparedNodes, Session
from pylaunch.launch.start.spares import standing_by
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import NodeCommand, NodePlan, RunPlan
from pylaunch.store.node_record import pack
from pylaunch.transport import interrupts

T = TypeVar("T")

OnStart = Callable[[Mapping[str, float], float, float], None]
"""Told the seconds of each phase, the release skew and its uncertainty."""


OnReady = Callable[[PreparedNodes], Coroutine[None, None, None]]
"""Called when every node is ready and no rank exists; if it raises, none ever does."""


@dataclass(frozen=True)
class Launch:
    """What to start."""

    plan: RunPlan
    commands: tuple[tuple[NodePlan, NodeCommand], ...]
    archive: AgentArchive
    created_at: float
    relays_output: bool = True
    """Not so for a controller in the background: what ranks write stays on their nodes, for `pylaunch logs`."""
    turn: Turn | None = None
    """Wait for what other runs hold; None is refused instead."""
    cargo: Payload = field(default_factory=Payload)
    before_queue: Callable[[], Coroutine[None, None, None]] | None = None
    """Called before the start waits for its turn; if it raises, nobody waits."""


def launch(what: Launch, watcher: Watcher, *, on_ready: OnReady, on_start: OnStart) -> Outcome:
    """Start a run and follow it to its end. Raises ClusterNotReadyError when a node refuses; then nothing runs."""
    agent = AgentVersion(what.archive.version)

    async def start_and_follow(fleet: Fleet) -> Outcome:
        cargo = replace(what.cargo, record=pack(what.plan, what.archive.version, what.created_at))
        session = Session(what.plan, what.commands, cargo, fleet, watcher)
        if what.turn is not None and what.before_queue is not None:
            await session.unless_interrupted(what.before_queue())
        async with in_turn(what.turn, what.plan, fleet, watcher):
            prepared = await session.prepare(installer(what.plan, what.archive))
        await session.unless_interrupted(on_ready(prepared))
        async with standing_by(what.plan, agent, watcher):
            start = await session.release()
            on_start(start.phases, start.skew, start.skew_uncertainty)
            streams = rank_streams(what.plan) if what.relays_output else []
            return await RunFollower(what.plan, fleet, watcher, streams=streams).follow()

    return on_fleet(what.plan, agent, start_and_follow, last_s=LAST_S)


def vet(what: Launch, watcher: Watcher) -> Mapping[str, tuple[str, ...]]:
    """The nodes of a plan that could not take part if it were started now, and why. Nothing is started or kept."""

    async def prepare(fleet: Fleet) -> Mapping[str, tuple[str, ...]]:
        session = Session(what.plan, what.commands, what.cargo, fleet, watcher)
        try:
            await session.prepare(installer(what.plan, what.archive))
        except NodesRefusedError as refused:
            return refused.reasons
        return {}

    return on_fleet(what.plan, AgentVersion(what.archive.version), prepare)


def on_fleet(
    plan: RunPlan,
    agent: AgentVersion,
    work: Callable[[Fleet], Coroutine[None, None, T]],
    *,
    last_s: float = interrupts.LAST_S,
) -> T:
    """The same as `with_fleet`, from outside of any loop; SIGINT and SIGTERM interrupt the fleet.

    `work` may take `last_s` after the second one.
    """

    async def interruptible(fleet: Fleet) -> T:
        loop = asyncio.get_running_loop()
        with interrupts.received_by(lambda number: loop.call_soon_threadsafe(fleet.interrupt, number), last_s):
            return await work(fleet)

    return asyncio.run(with_fleet(plan, agent, interruptible))


async def with_fleet(plan: RunPlan, agent: AgentVersion, work: Callable[[Fleet], Coroutine[None, None, T]]) -> T:
    """Do `work` with connections to the nodes of `plan`; they are closed whatever happens."""
    fleet = Fleet(plan, agent)
    try:
        return await work(fleet)
    finally:
        await fleet.close()
