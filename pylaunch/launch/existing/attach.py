"""Coming back to a run: follow it again, read what it wrote, stop it, or ask how it stands."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from pylaunch.agent import wire
from pylaunch.errors import ClusterNotReadyError
from pylaunch.launch.connect.agent_link import (
    AgentAbsentError,
    AgentLink,
    AgentStoppedError,
    AgentVersion,
    RunUnknownError,
)
from pylaunch.launch.connect.confine import ForeignMessage, overstepped
from pylaunch.launch.connect.fleet import ConnectionEnded, Fleet, Interrupted
from pylaunch.launch.connect.interruptible import on_fleet, with_fleet
from pylaunch.launch.existing.proof import NodeProof, end
from pylaunch.launch.follow.run_follower import LAST_S, RunFollower, rank_streams
from pylaunch.launch.follow.skipped import LIVE_LAG, told
from pylaunch.launch.follow.watcher import Watcher
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import NodePlan
from pylaunch.model.run import Event, EventKind, RunRecord

ASKED_AT_ONCE = 4
"""Runs whose nodes are asked at the same time: sshd allows ten sessions on a connection, and live runs have theirs."""


@dataclass(frozen=True)
class NodeState:
    """How one node of a run stands."""

    host: str
    phase: str
    """A phase of the agent, "not answering" for one that is stopped, or "unreachable"."""

    running: tuple[int, ...] = ()
    reason: str = ""


def follow(record: RunRecord, watcher: Watcher, on_caught_up: Callable[[], None]) -> Outcome:
    """Follow a live run to its end, from the beginning of its logs. Ctrl-C stops the run, as in start.

    When the watcher has all that was written before, `on_caught_up` is called.

    Raises ClusterNotReadyError when no node of it can be reached.
    """

    async def work(fleet: Fleet) -> Outcome:
        follower = RunFollower(
            record.plan, fleet, watcher, streams=rank_streams(record.plan), on_caught_up=on_caught_up
        )
        _need_one(record, await fleet.unless_interrupted(_attach(fleet, record, follower)))
        watcher.event(Event(time.time(), EventKind.ATTACHED))
        return await follower.follow()

    return on_fleet(record.plan, _agent(record), work, last_s=LAST_S)


def stop(record: RunRecord, watcher: Watcher, grace: timedelta) -> tuple[Outcome, Mapping[str, NodeProof]]:
    """End a run on every node that can be reached, and learn whether anything is left there.

    Nodes whose agent cannot prove it (killed, stopped, gone) are asked themselves; what they answered, by host.
    Raises ClusterNotReadyError when nothing is known of any node.
    """

    async def work(fleet: Fleet) -> tuple[Outcome, dict[str, str]]:
        follower = RunFollower(record.plan, fleet, watcher, streams=[])
        reasons = await fleet.unless_interrupted(_attach(fleet, record, follower))
        follower.order_stop(f"stopped with pylaunch stop {_by_whom()}", grace)
        return await follower.follow(), reasons

    outcome, reasons = on_fleet(record.plan, _agent(record), work)
    in_doubt = {*outcome.unproven, *outcome.leftovers}
    if not in_doubt:
        return outcome, {}
    proofs = end(record, in_doubt, grace.total_seconds())
    silent = {name: proofs[name].reason or "" for name in reasons if proofs[name].reason is not None}
    _need_one(record, {name: reason or reasons[name] for name, reason in silent.items()})
    return proven(outcome, proofs), proofs


def proven(outcome: Outcome, proofs: Mapping[str, NodeProof]) -> Outcome:
    """`outcome` with what nodes have shown. A run of which nothing was there any more was not stopped: it was lost."""
    known = {host: left for host, left in outcome.leftovers.items() if host not in proofs}
    after = replace(
        outcome,
        leftovers=known | {host: each.left for host, each in proofs.items() if each.left},
        unproven=tuple(host for host in outcome.unproven if host not in proofs or proofs[host].reason is not None),
    )
    was_over = proofs and all(each.is_clean and not each.found for each in proofs.values())
    if outcome.by_hand and was_over and not any(end.stopped for end in outcome.ends):
        host, first = next(iter(proofs.items()))
        return replace(after, status=Status.FAILED, reason=f"{host} lost: {first.words}", by_hand=False)
    return after


def _by_whom() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"user id {os.getuid()}"
    return f"by {user} on {socket.gethostname()}"


@dataclass(frozen=True)
class LogQuery:
    """What to read of a run's logs."""

    nodes: Sequence[NodePlan]
    streams: list[str]
    stay: bool = False
    """Go on until the run ends."""

    tail: int | None = None
    """Begin with so many last lines of each stream; None is with the first."""

    since: float | None = None
    """Leave away what was written before this time (our clock); None is nothing."""


def read_logs(record: RunRecord, watcher: Watcher, reading: LogQuery) -> None:
    """Relay what was written until now, or until the run ends. Ctrl-C ends the reading alone."""

    async def work(fleet: Fleet) -> None:
        names = [node.host.name for node in reading.nodes]
        failures = await fleet.unless_interrupted(fleet.connect(names, "attach"))
        _need_one(record, {name: str(error) for name, error in failures.items()}, of=names)
        for name, error in failures.items():
            watcher.phase(f"{name}: {error}")
        await fleet.send({name: _wanted(reading, link) for name, link in fleet.links.items()})
        if reading.since is not None:
            dateless = [name for name, link in fleet.links.items() if wire.SINCE not in link.hello.knows]
            if dateless:
                watcher.phase(f"note: {fold(dateless)}: when lines were written is not known there, so all are shown")
        waiting = set(fleet.links)
        while waiting:
            host, message = await fleet.hear()
            match message:
                case wire.Output():
                    watcher.output(host, message.stream, message.text, fleet.our_time(host, message.time))
                case wire.Skipped():
                    watcher.phase(told(host, message))
                case ForeignMessage():
                    watcher.phase(overstepped(host, message))
                case wire.Finished() | wire.Failed() | ConnectionEnded():
                    waiting.discard(host)
                case wire.CaughtUp() if not reading.stay:
                    waiting.discard(host)
                case Interrupted():
                    return

    on_fleet(record.plan, _agent(record), work)


def _wanted(reading: LogQuery, link: AgentLink) -> wire.Follow:
    return wire.Follow(
        {},
        reading.streams,
        tail=reading.tail,
        lag=LIVE_LAG if reading.stay else None,
        since=None if reading.since is None else link.clock.to_node(reading.since),
    )


@dataclass(frozen=True)
class RunStatus:
    """State of a run on each of its nodes, and its outcome if every node reports that it is over."""

    nodes: tuple[NodeState, ...]
    outcome: Outcome | None

    @property
    def state(self) -> str:
        """The state in one word: that of the outcome, else the liveliest phase of a node."""
        if self.outcome is not None:
            return self.outcome.status.value
        phases = {node.phase for node in self.nodes}
        return next((phase for phase in _LIVELIEST_FIRST if phase in phases), "unreachable")


_LIVELIEST_FIRST = ("running", "stopping", "prepared", "new", "starting", "not answering")


@dataclass(frozen=True)
class StatusQuery:
    """A run whose nodes are asked for its state, and the watcher that receives their events."""

    record: RunRecord
    watcher: Watcher
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
        follower = RunFollower(record.plan, fleet, query.watcher, streams=[])
        for name in failures:
            follower.nothing_there(name)
        outcome = await follower.follow()
        ended_at = max((end.time for end in outcome.ends), default=outcome.ended_at)
        return RunStatus(nodes, replace(outcome, ended_at=ended_at))

    return await with_fleet(record.plan, _agent(record), work)


def _state(name: str, fleet: Fleet, failures: Mapping[str, Exception], absent: str) -> NodeState:
    if isinstance(failures.get(name), RunUnknownError | AgentAbsentError) and absent == "starting":
        return NodeState(name, absent)
    if isinstance(failures.get(name), RunUnknownError):
        return NodeState(name, absent)
    if isinstance(failures.get(name), AgentStoppedError):
        return NodeState(name, "not answering", reason=_reason(failures[name]))
    if name in failures:
        return NodeState(name, "unreachable", reason=_reason(failures[name]))
    hello = fleet.links[name].hello
    return NodeState(name, hello.phase, tuple(hello.running))


async def _attach(fleet: Fleet, record: RunRecord, follower: RunFollower) -> dict[str, str]:
    failures = await fleet.connect([node.host.name for node in record.plan.nodes], "attach")
    reasons = {}
    for name, error in failures.items():
        if isinstance(error, RunUnknownError):
            follower.nothing_there(name)
        else:
            reasons[name] = _reason(error)
            follower.given_up(name, reasons[name])
    return reasons


def _reason(error: Exception) -> str:
    return "the agent's archive is gone" if isinstance(error, AgentAbsentError) else str(error)


def _need_one(record: RunRecord, reasons: Mapping[str, str], *, of: Iterable[str] | None = None) -> None:
    names = list(of) if of is not None else [node.host.name for node in record.plan.nodes]
    if len(reasons) < len(names):
        return
    raise ClusterNotReadyError(
        f"run {record.plan.run}: none of its nodes ({fold(names)}) can be reached",
        evidence=[f"{name}: {reason}" for name, reason in reasons.items()],
        hint=f"pylaunch status {record.plan.run}",
    )


def _agent(record: RunRecord) -> AgentVersion:
    return AgentVersion(record.agent)
