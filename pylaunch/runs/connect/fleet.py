"""Connections of one run to all of its nodes, with one inbox for their messages.

    heard ──SUSPECT of the timeout──► suspected: open a second connection, keep the first
      ▲                                   │
      └─── any message, on either one ────┼──timeout──► lost

The second connection detects that the first one is slow or broken; a node that answers on neither is lost. Silence
counts only while the controller listens: time during which it was stopped or busy is not counted.
"""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterable, Mapping
from typing import TypeVar, cast

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass
from pylaunch.model.clock import ClockOffset
from pylaunch.model.plan import RunPlan
from pylaunch.protocol.heartbeats import Heartbeats
from pylaunch.runs import steady_clock
from pylaunch.runs.connect.agent_link import (
    HELLO_TIMEOUT_S,
    LEAVES_S,
    AgentAbsentError,
    AgentLink,
    Call,
    LinkError,
    RunUnknownError,
    enter,
    open_link,
)
from pylaunch.runs.connect.confine import ForeignMessage, Scope
from pylaunch.runs.connect.inbox import Inbox
from pylaunch.transport.connections import connector_of
from pylaunch.transport.descriptors import allow_hosts
from pylaunch.transport.patience import patience
from pylaunch.transport.process import Child, spawn
from pylaunch.transport.silence import AWAITED

T = TypeVar("T")

LOOK_S = 1.0
"""Between two searches for silent nodes; each one sends Ping to all nodes."""

SUSPECT = 0.4
"""Part of the timeout after which a second connection is opened."""

RECONNECT_PAUSE_S = 0.5

UNKNOWN_S = 60.0
"""Uncertainty of a clock that could not be measured."""

CONNECTING = 64
"""Connections that are opened at the same time: more would only delay each of them."""


@dataclass(frozen=True)
class ConnectionEnded:
    """The connection of a node ended, and the controller did not close it."""

    reason: str


@dataclass(frozen=True)
class NodeSilent:
    """No heartbeat of a node for a while; a second connection is being opened."""

    seconds: float


@dataclass(frozen=True)
class HeardAgain:
    """A silent node sent a message on its old connection."""


@dataclass(frozen=True)
class Reconnected:
    """A node has a new connection."""


@dataclass(frozen=True)
class Lost:
    """The agent of a node could not be reached again in time."""

    reason: str
    host_answers: bool = False
    """The host itself answered the last call."""


@dataclass(frozen=True)
class Interrupted:
    """A request to end the run: Ctrl-C, a signal of another program, or a call of `Interrupter`. Comes from no host."""

    reason: str

    def __str__(self) -> str:
        return self.reason


_ENDS = (protocol.Stopping, protocol.Finished, protocol.Failed, ConnectionEnded)
"""Messages of a node that will answer no more."""


class Fleet:
    """Links by host name. The inbox has messages of `protocol`, and those above."""

    def __init__(self, plan: RunPlan, agent: str) -> None:
        self.inbox = Inbox(len(plan.nodes))
        self.links: dict[str, AgentLink] = {}
        self._cluster = plan.cluster
        self._agent = agent
        self._run = plan.run
        self._scopes = {node.host.name: Scope(plan, node) for node in plan.nodes}
        self._reported_foreign: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._interrupts = 0
        self._connecting = asyncio.Semaphore(CONNECTING)
        self._abandoned: list[AgentLink] = []
        self._heartbeats = Heartbeats([], 0.0)
        self._timeout_s = 0.0
        self._calling: dict[str, LinkError | AgentAbsentError | None] = {}
        """Hosts to which a second connection is being opened, with the error of the last attempt."""

        self._opened_at = 0.0
        """Time at which this process began to prepare the nodes, if it does."""

    def serve(self, plan: RunPlan) -> None:
        """Connect to the nodes of `plan`, of the same run, and to no others: nothing is connected yet."""
        self._cluster, self._scopes = plan.cluster, {node.host.name: Scope(plan, node) for node in plan.nodes}

    async def connect(
        self, names: Iterable[str], verb: str, *, shared: bool = True, interpreters: Mapping[str, str] | None = None
    ) -> dict[str, LinkError | AgentAbsentError]:
        """Open links to `names` at the same time; return the errors of those that failed, by host.

        A host without its path in `interpreters` is one that failed.
        """
        wanted, paths = tuple(names), interpreters or {}
        if verb == "open" and not self._opened_at:
            self._opened_at = steady_clock.now()
        allow_hosts(len(self._cluster.hosts))
        answers = await asyncio.gather(
            *(
                self._open(name, Call(verb, self._run, shared=shared, interpreter=paths.get(name, "")))
                for name in wanted
            ),
            return_exceptions=True,
        )
        failures: dict[str, LinkError | AgentAbsentError] = {}
        for name, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, LinkError | AgentAbsentError):
                failures[name] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                self._listen(name, answer)
        return failures

    async def post(self, message: object) -> None:
        """Put a message of the controller itself into the inbox, with "" as its host."""
        await self.inbox.put("", message)

    async def send(self, messages: Mapping[str, object]) -> None:
        """Send each host its message. A broken connection is ignored: the inbox gets ConnectionEnded."""
        await asyncio.gather(
            *(self.links[name].send(message) for name, message in messages.items() if name in self.links),
            return_exceptions=True,
        )

    async def broadcast(self, message: object, names: Iterable[str]) -> None:
        """Send the same message to `names`."""
        await self.send(dict.fromkeys(names, message))

    def our_time(self, name: str, node_time: float) -> float:
        """Convert a time of `name` to the controller's clock; for a connection that has ended, return the time now.

        So is a time in the future, or before the preparation: that clock was set since the connection measured it.
        """
        link, now = self.links.get(name), steady_clock.now()
        at = now if link is None else link.clock.to_ours(node_time)
        return at if self._opened_at <= at <= now else now

    def clock(self, name: str) -> ClockOffset:
        """Return the clock offset of `name`; of one without a connection, none with an unknown uncertainty."""
        link = self.links.get(name)
        return ClockOffset(0.0, UNKNOWN_S) if link is None else link.clock

    async def channel(self, name: str, verb: str) -> Child:
        """Start `verb` of the agent on `name` as a separate process, over the shared SSH connection."""
        host = self._cluster[name]
        connector = connector_of(host, self._cluster.known_hosts)
        return await spawn(connector.argv(enter(host, self._agent, verb, self._run)))

    def keep_watch(self, timeout_s: float) -> None:
        """Send Ping to all nodes from now on. The inbox gets NodeSilent, and Lost after `timeout_s`."""
        self._heartbeats, self._timeout_s = Heartbeats(self.links, time.monotonic()), timeout_s
        self._spawn(self._watch())

    def dismiss(self, name: str) -> None:
        """Expect no more messages of `name`."""
        self._heartbeats.forget(name)

    def reconnect(self, name: str) -> None:
        """Attach again to `name`, whose connection ended; the inbox gets Reconnected, or Lost after the timeout."""
        self.links.pop(name, None)
        if name not in self._calling:  # A node that was silent before its connection ended is being called.
            self._begin_call(name)

    def drop(self, name: str) -> None:
        """Give up the silent connection to `name`."""
        link = self.links.pop(name, None)
        if link is not None:
            self._abandon(link)

    def interrupt(self, reason: str) -> None:
        """Put Interrupted into the inbox; on the event loop of this fleet."""
        self._interrupts += 1
        self._spawn(self.inbox.put("", Interrupted(reason)))

    async def unless_interrupted(self, work: Coroutine[None, None, T]) -> T:
        """Run `work` and return its result. An interrupt cancels it and raises KeyboardInterrupt. Other messages that
        arrive meanwhile stay in the inbox."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                hearing = asyncio.ensure_future(self.inbox.hear())
                await asyncio.wait({task, hearing}, return_when=asyncio.FIRST_COMPLETED)
                if not hearing.done():
                    hearing.cancel()
                    break
                _, message = hearing.result()
                if isinstance(message, Interrupted):
                    raise KeyboardInterrupt(str(message))
                self.inbox.keep()
            self.inbox.put_back()
            return await task
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def answers(self, kind: type[T], hosts: Iterable[str], within_s: float) -> dict[str, T]:
        """Return a message of `kind` of each of `hosts` that sends one within `within_s` seconds and before its end.

        All other messages stay in the inbox; an interrupt among them ends the wait.
        """
        found: dict[str, T] = {}
        awaited = set(hosts)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while awaited:
                    host, message = await self.inbox.hear()
                    if isinstance(message, kind):
                        found[host] = message
                        awaited.discard(host)
                        continue
                    self.inbox.keep()
                    if isinstance(message, Interrupted):
                        break
                    if isinstance(message, _ENDS):
                        awaited.discard(host)
        self.inbox.put_back()
        return found

    async def absent(self, within_s: float) -> dict[str, str]:
        """Ping all nodes; return the reasons of those that have failed or do not answer, by host.

        All other messages stay in the inbox. Raises KeyboardInterrupt for an interrupt.
        """
        found: dict[str, str] = {}
        silent = set(self.links)
        await self.broadcast(protocol.Ping(0), silent)
        with AWAITED.hosts(silent, within_s), contextlib.suppress(TimeoutError):
            async with patience(within_s):
                while silent:
                    host, message = await self.inbox.hear()
                    if isinstance(message, ConnectionEnded | protocol.Failed):
                        found[host] = message.reason if isinstance(message, ConnectionEnded) else message.message
                    elif not isinstance(message, protocol.Pong):
                        self.inbox.keep()
                    if isinstance(message, Interrupted):
                        raise KeyboardInterrupt(str(message))
                    if isinstance(message, (protocol.Pong, *_ENDS)):
                        silent.discard(host)
        self.inbox.put_back()
        return found | dict.fromkeys(silent, f"no answer within {within_s:g} s")

    async def close(self) -> None:
        """End all connections and wait until their processes are gone."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        links = (*self.links.values(), *self._abandoned)
        within_s = LEAVES_S if self._interrupts < 2 else 0.0
        await asyncio.gather(*(link.close(within_s) for link in links), return_exceptions=True)
        self.links.clear()

    async def _open(self, name: str, call: Call) -> AgentLink:
        async with self._connecting:
            link = await open_link(self._cluster[name], self._cluster.known_hosts, self._agent, call)
            link.hello = cast(protocol.Hello, self._scopes[name].confined(link.hello, frozenset()))
            return link

    def _listen(self, name: str, link: AgentLink) -> None:
        self.links[name] = link
        self._spawn(self._read(name, link))

    async def _read(self, name: str, link: AgentLink) -> None:
        try:
            async for message, size in link.messages():
                if self.links.get(name) is link:
                    await self._take(name, link, message, size)
                    await self.inbox.room(name)
            reason = await link.why_it_ended()
        except LinkError as error:
            reason = error.reason
        if not self._closing and self.links.get(name) is link:
            await self.inbox.put(name, ConnectionEnded(reason))

    async def _take(self, name: str, link: AgentLink, message: object, size: int) -> None:
        """Pass on messages about the part of `name`; of others, report the first one."""
        confined = self._scopes[name].confined(message, link.requested)
        if not isinstance(confined, ForeignMessage):
            await self.inbox.put(name, confined, size)
        elif name not in self._reported_foreign:
            self._reported_foreign.add(name)
            await self.inbox.put(name, confined, size)

    async def _watch(self) -> None:
        while True:
            self._spawn(self.broadcast(protocol.Ping(0), self._heartbeats.names))
            await asyncio.sleep(LOOK_S)
            now = time.monotonic()
            heard = [(name, self.links[name]) for name in self._heartbeats.names if name in self.links]
            for name, link in heard:
                self._heartbeats.beat(name, link.heard_at)
            self._heartbeats.check_pause(now)
            for name, link in heard:
                if not link.is_awaited:
                    self._heartbeats.beat(name, now)
            for name in self._heartbeats.silent(now, self._timeout_s):
                error = self._calling.get(name)
                why = f" ({error!s})" if error is not None else ""
                await self._give_up(name, f"no heartbeat for {self._timeout_s:g} s{why}", error)
            for name in self._heartbeats.silent(now, self._timeout_s * SUSPECT):
                if name not in self._calling:
                    await self.inbox.put(name, NodeSilent(self._heartbeats.silence_s(name)))
                    self._begin_call(name)

    async def _give_up(self, name: str, reason: str, error: LinkError | AgentAbsentError | None) -> None:
        self.dismiss(name)
        await self.inbox.put(name, Lost(reason, error is not None and error.host_answers))
        self.drop(name)

    def _begin_call(self, name: str) -> None:
        self._calling[name] = None
        self._spawn(self._call(name))

    async def _call(self, name: str) -> None:
        """Call until `name` answers, sends a message on its old connection, or is given up."""
        began, old = time.monotonic(), self.links.get(name)
        try:
            while name in self._heartbeats.names:
                if old is not None and old.heard_at > began and self.links.get(name) is old:
                    await self.inbox.put(name, HeardAgain())
                    return
                if await self._call_once(name, old):
                    return
                await asyncio.sleep(RECONNECT_PAUSE_S)
        finally:
            del self._calling[name]

    async def _call_once(self, name: str, old: AgentLink | None) -> bool:
        within_s = min(HELLO_TIMEOUT_S, max(1.0, self._timeout_s - self._heartbeats.silence_s(name)))
        try:
            link = await self._open(name, Call("attach", self._run, within_s, shared=False))
        except (LinkError, AgentAbsentError) as error:
            self._calling[name] = error
            is_final = isinstance(error, RunUnknownError) or (isinstance(error, LinkError) and error.is_final)
            if is_final:
                await self._give_up(name, str(error), error)
            return is_final
        if name not in self._heartbeats.names:
            self._abandon(link)
            return True
        self._listen(name, link)
        if old is not None:
            self._abandon(old)
        await self.inbox.put(name, Reconnected())
        return True

    def _abandon(self, link: AgentLink) -> None:
        link.abandon()
        self._abandoned.append(link)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
