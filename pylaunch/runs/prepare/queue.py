"""The queue of a start for the devices and the port of all its nodes. A start that waits holds nothing.

On every node a process keeps a place in the queue of that node (`agent/piped/queue.py`) and reports what blocks it.
The start continues when nothing blocks it on any node. It keeps its places until its nodes hold their devices, so no
start that waits overtakes it. All nodes order places the same way, so no two starts wait for each other. A start that
may run on any of several hosts has a place on all of them, and keeps those on the first that are free.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping

import msgspec

from pylaunch.agent.piped import queue as node_side
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.hostset import fold
from pylaunch.model.job import RankOrder
from pylaunch.model.plan import NodePlan, RunPlan, on_hosts
from pylaunch.probe.program import STREAMED, program, streamed
from pylaunch.runs import steady_clock
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.prepare.session import InterruptedBeforeReleaseError
from pylaunch.transport.answers import NotAnAnswerError, decoded
from pylaunch.transport.connections import connector_of, in_full
from pylaunch.transport.handshakes import awaited_turn
from pylaunch.transport.patience import patience
from pylaunch.transport.process import Child, describe_exit, last_line, spawn
from pylaunch.transport.silence import AWAITED

SETTLE_S = 0.7
"""Debounce time before the blocking runs are reported: nodes look one after the other."""

LEAVE_S = 2.0
"""Time that a node may take to give up the place before the connection is closed."""

ANSWERS_S = 60.0
"""For a host to say what blocks the start: of hundreds, the last one is late where this machine is busy."""

Blocked = tuple[tuple[str, str], ...]
"""Blocking runs on one node: ("device 3", its holder), or ("", the start that is ahead)."""


@dataclass(frozen=True)
class Turn:
    """A place in the queue."""

    since: float
    """Seconds since the epoch. The earliest start is first, also when it queues again after it lost its turn."""

    timeout_s: float | None
    """None waits without limit."""

    hosts: tuple[Host, ...] = ()
    """Hosts of which any can be a node of the plan; () for those of the plan alone."""

    def among(self, cluster: Cluster, plan: RunPlan) -> "Turn":
        """Return the turn on all hosts of `cluster` with as many devices as those of `plan`, where any of them will do.

        The hosts of a run that restarts, or whose rank order is that of a topology, are those of its plan.
        """
        counts = {len(node.host.devices) for node in plan.nodes}
        alike = tuple(host for host in cluster.hosts if {len(host.devices)} == counts)
        is_fixed = plan.job.max_restarts > 0 or plan.job.rank_order is RankOrder.TOPOLOGY or counts == {0}
        return self if is_fixed or len(alike) <= len(plan.nodes) else replace(self, hosts=alike)


@contextlib.asynccontextmanager
async def in_turn(
    turn: Turn | None, plan: RunPlan, fleet: Fleet, report: Callable[[tuple[str, ...]], None]
) -> AsyncIterator[tuple[Host, ...]]:
    """Wait for the turn of `plan`, and keep it for the body, which gets the hosts. Without a `turn`, return at once.

    `report` receives what blocks the start, in words, when that changes.

    Raises ClusterNotReadyError when it does not come in time or a node cannot be asked, and
    InterruptedBeforeReleaseError on an interrupt.
    """
    if turn is None:
        yield plan.cluster.hosts
        return
    queue = _Queue(turn, plan, report)
    try:
        await queue.enter()
        try:
            hosts = await fleet.unless_interrupted(queue.wait())
        except KeyboardInterrupt as interrupt:
            reason = f"{interrupt} while waiting, before any rank was started"
            raise InterruptedBeforeReleaseError(reason) from None
        yield hosts
    finally:
        await queue.leave()


class _Queue:
    """The places of one start on all its nodes."""

    def __init__(self, turn: Turn, plan: RunPlan, report: Callable[[tuple[str, ...]], None]) -> None:
        self._turn = turn
        self._plan = plan
        self._nodes = on_hosts(plan, turn.hosts or plan.cluster.hosts).nodes
        self._report = report
        self._children: dict[str, Child] = {}
        self._blocked: dict[str, Blocked] = {}
        self._reported: list[str] = []
        self._news = asyncio.Event()

    async def enter(self) -> None:
        """Take a place on every node."""
        script = streamed(program(node_side.main))
        for node in self._nodes:
            argv = (node.host.agent_python, *STREAMED)
            child = await spawn(connector_of(node.host, self._plan.known_hosts).argv(argv))
            self._children[node.host.name] = child
            order = json.dumps(_order(self._turn, self._plan, node)).encode()
            with contextlib.suppress(ConnectionError):  # `_read` reports the reason.
                await child.send(b"%b%b\n" % (script, order))

    async def wait(self) -> tuple[Host, ...]:
        """Wait until nothing blocks the start on as many hosts as it needs; return them, and leave the others."""
        wanted = len(self._plan.nodes)
        readers = {asyncio.ensure_future(self._read(node.host)): node.host.name for node in self._nodes}
        limit = None if self._turn.timeout_s is None else self._turn.since + self._turn.timeout_s - steady_clock.now()
        try:
            async with asyncio.timeout(None if limit is None else max(0.0, limit)):
                while len(self._blocked) < len(self._nodes) or len(self._free()) < wanted:
                    news = asyncio.ensure_future(self._news.wait())
                    settle_s = None if self._words() == self._reported else SETTLE_S
                    await asyncio.wait({news, *readers}, timeout=settle_s, return_when=asyncio.FIRST_COMPLETED)
                    if not news.done():
                        news.cancel()
                        self._report_changes()
                    self._news.clear()
                    for lost in [reader for reader in readers if reader.done()]:
                        name = readers.pop(lost)
                        self._blocked[name] = (("", str(lost.exception()).removeprefix(f"{name}: ")),)
                        if len(readers) < wanted:
                            lost.result()
        except TimeoutError:
            raise ClusterNotReadyError(
                f"still waiting after {self._turn.timeout_s:g} s, so no rank was started",
                evidence=self._words() or ["not every node has answered"],
                hint="who holds what: pylaunch gpus; --queue without --queue-timeout waits for ever",
            ) from None
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        chosen = self._free()[:wanted]
        others = self._children.keys() - {host.name for host in chosen}
        await asyncio.gather(*(self._children.pop(name).leave(LEAVE_S) for name in others))
        return tuple(chosen)

    def _free(self) -> list[Host]:
        return [node.host for node in self._nodes if self._blocked.get(node.host.name) == ()]

    async def leave(self) -> None:
        """Give up all places."""
        await asyncio.gather(*(child.leave(LEAVE_S) for child in self._children.values()))

    async def _read(self, host: Host) -> None:
        child, connector = self._children[host.name], connector_of(host, self._plan.known_hosts)
        try:
            with AWAITED.hosts([host.name], ANSWERS_S):
                async with patience(ANSWERS_S):
                    line = await child.readline()
        except TimeoutError:
            silence = connector.timed_out(ANSWERS_S)
            raise ClusterNotReadyError(f"{host.name}: {silence.reason}", hint=silence.hint) from None
        while line:
            if line.startswith(b"{"):
                self._blocked[host.name] = _place(host, line)
                self._news.set()
            line = await child.readline()
        self._blocked.pop(host.name, None)
        ended = await child.leave(LEAVE_S)
        async with awaited_turn(connector):
            ended = await in_full(connector, ended)
        if (failure := connector.failure(ended)) is not None:
            raise ClusterNotReadyError(f"{host.name}: {failure.reason}", hint=failure.hint)
        why = f"{describe_exit(ended.returncode)}: {last_line(ended.stderr)}"
        raise ClusterNotReadyError(f"{host.name}: its place in the queue was lost ({why})")

    def _words(self) -> list[str]:
        names = [node.host.name for node in self._nodes]
        found = words({name: self._blocked[name] for name in names if name in self._blocked})
        return [f"any {len(self._plan.nodes)} of {fold(names)}", *found] if found and self._turn.hosts else found

    def _report_changes(self) -> None:
        blocking = self._words()
        if blocking and blocking != self._reported:
            self._report(tuple(blocking))
        self._reported = blocking


class _Place(msgspec.Struct):
    blocked: list[tuple[str, str]]


def _place(host: Host, line: bytes) -> Blocked:
    try:
        return tuple(decoded(line, _Place).blocked)
    except NotAnAnswerError as error:
        raise ClusterNotReadyError(f"{host.name}: its queue reports no blocking runs: {error}") from None


def _order(turn: Turn, plan: RunPlan, node: NodePlan) -> dict[str, object]:
    port = plan.job.rendezvous_port
    return {
        "root": node.host.node_root,
        "since": int(turn.since * 1e6),
        "run": plan.run,
        "devices": list(node.devices),
        "ports": [port] if port is not None and (turn.hosts or node.node_rank == 0) else [],
    }


def words(blocked: Mapping[str, Blocked]) -> list[str]:
    """Return blocking runs, hosts and devices folded: "gpu[01-02]: devices 0-3, run 7f3a of anna since 12:01"."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for host, each in blocked.items():
        held: dict[str, list[str]] = {}
        for what, by in each:
            held.setdefault(by, []).append(what)
        for by, found in held.items():
            by_reason.setdefault((_listed(found), by), []).append(host)
    return [f"{fold(hosts)}: {f'{what}, ' if what else ''}{by}" for (what, by), hosts in by_reason.items()]


def _listed(found: list[str]) -> str:
    devices = [int(number) for what in found if (number := what.removeprefix("device ")) != what and number.isdecimal()]
    parts = [f"device{'s' if len(devices) > 1 else ''} {fold(map(str, devices)).strip('[]')}"] if devices else []
    return ", ".join([*parts, *(what for what in found if what.startswith("port "))])
