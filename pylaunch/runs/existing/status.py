"""Ask the nodes of runs for their state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.outcome import Outcome
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.agent_link import AgentAbsentError, AgentFailedError, RunUnknownError, reason_of
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.connect.interruptible import with_fleet
from pylaunch.runs.follow.run_events import Emitter
from pylaunch.runs.follow.run_follower import RunFollower

ASKED_AT_ONCE = 4
"""Runs whose nodes are asked at the same time: sshd allows ten sessions on a connection, and live runs have theirs."""


@dataclass(frozen=True)
class NodeState:
    """State of one node of a run."""

    host: str
    phase: str
    """Phase of the agent; "not answering" for an agent that is stopped, or "unreachable"."""

    running: tuple[int, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class RunStatus:
    """State of a run on each of its nodes, and its outcome if every node reports that it is over."""

    nodes: tuple[NodeState, ...]
    outcome: Outcome | None

    @property
    def state(self) -> str:
        """The state in one word: that of the outcome, else the most active phase of any node."""
        if self.outcome is not None:
            return self.outcome.status.value
        phases = {node.phase for node in self.nodes}
        return next((phase for phase in _LIVELIEST_FIRST if phase in phases), "unreachable")


_LIVELIEST_FIRST = ("running", "stopping", "prepared", "new", "starting", "not answering")


@dataclass(frozen=True)
class StatusQuery:
    """A run to query, and the emitter of the events of its nodes."""

    record: RunRecord
    emit: Emitter
    is_led: bool
    """A controller leads the run: nodes that do not know the run yet are starting it."""


def ask_status(queries: Sequence[StatusQuery]) -> list[RunStatus]:
    """Ask the nodes of runs without an outcome for their state. A run that is over gets its outcome."""

    async def ask_all() -> list[RunStatus]:
        room = asyncio.Semaphore(ASKED_AT_ONCE)

        async def in_turn(query: StatusQuery) -> RunStatus:
            async with room:
                return await _ask(query)

        return await asyncio.gather(*map(in_turn, queries))

    return asyncio.run(ask_all())


async def _ask(query: StatusQuery) -> RunStatus:
    record = query.record
    absent = "starting" if query.is_led and not record.has_started else "finished"

    async def work(fleet: Fleet) -> RunStatus:
        names = [node.host.name for node in record.plan.nodes]
        failures = await fleet.connect(names, "attach")
        nodes = tuple(_state(name, fleet, failures, absent) for name in names)
        if any(node.phase != "finished" for node in nodes):
            return RunStatus(nodes, None)
        follower = RunFollower(record.plan, fleet, query.emit, streams=[])
        for name in failures:
            follower.nothing_there(name)
        outcome = await follower.follow()
        ended_at = max((end.time for end in outcome.ends), default=outcome.ended_at)
        return RunStatus(nodes, replace(outcome, ended_at=ended_at))

    return await with_fleet(record.plan, record.agent, work)


def _state(name: str, fleet: Fleet, failures: Mapping[str, Exception], absent: str) -> NodeState:
    failure = failures.get(name)
    if isinstance(failure, RunUnknownError) or (isinstance(failure, AgentAbsentError) and absent == "starting"):
        return NodeState(name, absent)
    if failure is not None:
        phase = "not answering" if isinstance(failure, AgentFailedError) else "unreachable"
        return NodeState(name, phase, reason=reason_of(failure))
    hello = fleet.links[name].hello
    return NodeState(name, hello.phase, tuple(hello.running))
