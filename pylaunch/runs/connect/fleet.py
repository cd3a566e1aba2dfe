"""One conversation with all nodes of a run.

A message of a node is a reply to a question that is asked (`Fleet.ask`), or else waits in the inbox for the one
subscriber: the session before the release, the follower after it. An interrupt ends the work that it may interrupt
(`Fleet.unless_interrupted`), or else waits for the subscriber, too.

Each connection is watched:

    heard ──SUSPECT of the timeout──► suspected: open a second connection, keep the first
      ▲                                   │
      └─── any message, on either one ────┼──timeout──► lost

The second connection detects that the first one is slow or broken; a node that answers on neither is lost. Silence
counts only while the controller listens: time during which it was stopped or busy is not counted.
"""

import asyncio
import contextlib
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Generic, TypeVar, cast

from pylaunch import protocol
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.clock import ClockOffset
from pylaunch.model.diagnosis.host_errors import error_lines
from pylaunch.model.hostset import fold
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import RunRecord
from pylaunch.protocol.heartbeats import Heartbeats
from pylaunch.runs.connect.agent_link import (
    HELLO_TIMEOUT_S,
    LEAVES_S,
    AgentLink,
    Call,
    LinkError,
    enter,
    open_link,
)
from pylaunch.runs.connect.bounds import (
    ConnectionEnded,
    ForeignMessage,
    HeardAgain,
    Interrupted,
    Lost,
    NodeSilent,
    Reconnected,
    Scope,
)
from pylaunch.runs.events import clock_kept, clock_now
from pylaunch.transport import interrupts
from pylaunch.transport.connections import connector_of, patience
from pylaunch.transport.interrupts import InterruptSource, signals
from pylaunch.transport.process import Child, allow_hosts, spawn

T = TypeVar("T")

LOOK_S = 1.0
"""Between two searches for silent nodes; each one sends Ping to all nodes."""

SUSPECT = 0.4
"""Part of the timeout after which a second connection is opened."""

RECONNECT_PAUSE_S = 0.5

UNKNOWN_S = 60.0
"""Uncertainty of a clock that could not be measured."""


MOST_BYTES = 16 << 20
"""Encoded bytes of all messages that wait, of which each host has an equal share."""

LEAST_SHARE = 64 << 10
"""Share of a host in a large cluster: about one message with output."""

LEAST_SIZE = 16 << 10
"""Bytes that each message counts at least: a node that floods with small ones delays the others, too."""

_Waiting = tuple[str, object, int]
"""A message with its host, and the bytes that it counts. A tuple: a rank that floods makes many of them."""


class Inbox:
    """Messages of `hosts` hosts that wait for the subscriber, and those of the controller itself with "" as their host.

    A reader waits for `room` before it reads another line, so the pipe and then the window of SSH fill, and a node that
    floods waits. No message is dropped.
    """

    def __init__(self, hosts: int) -> None:
        self._share = max(LEAST_SHARE, MOST_BYTES // max(1, hosts))
        self._messages: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._bytes: dict[str, int] = defaultdict(int)
        self._has_room: dict[str, asyncio.Event] = {}

    def put(self, host: str, message: object, size: int = 0) -> None:
        """Put in a message whose line had `size` bytes."""
        size = max(size, LEAST_SIZE)
        self._bytes[host] += size
        self._messages.append((host, message, size))
        self._arrived.set()

    def put_interrupt(self, interrupt: Interrupted) -> None:
        """Put in an interrupt, ahead of all other messages."""
        self._messages.appendleft(("", interrupt, 0))
        self._arrived.set()

    def taken_interrupt(self) -> Interrupted | None:
        """Take the interrupt that waits, if there is one."""
        if self._messages and isinstance(interrupt := self._messages[0][1], Interrupted):
            self._messages.popleft()
            return interrupt
        return None

    async def room(self, host: str) -> None:
        """Wait until the messages of `host` that wait are less than its share."""
        while self._bytes[host] >= self._share:
            has_room = self._has_room.setdefault(host, asyncio.Event())
            has_room.clear()
            await has_room.wait()

    async def hear(self) -> tuple[str, object]:
        """Wait for the next message; return it with its host."""
        while not self._messages:
            self._arrived.clear()
            await self._arrived.wait()
        host, message, size = self._messages.popleft()
        self._bytes[host] -= size
        if host in self._has_room and self._bytes[host] < self._share:
            self._has_room[host].set()
        return host, message


class Question(Generic[T]):
    """A message to some hosts whose replies, of the type `reply`, are awaited."""

    ends: tuple[type, ...] = (protocol.Stopping, protocol.Finished, protocol.Failed, ConnectionEnded, Lost)
    """Messages after which a host does not reply any more."""

    def __init__(self, reply: type[T]) -> None:
        self.replies: dict[str, T] = {}
        self.waiting: set[str] = set()
        """Hosts that have neither replied nor ended."""

        self.ended: dict[str, object] = {}
        """The last message of each host that ended before it replied."""

        self._reply = reply
        self._is_answered = asyncio.Event()

    def take(self, host: str, message: object) -> bool:
        """Take `message` if it is a reply of a host that is waited for, and report whether it is."""
        if host not in self.waiting or not isinstance(message, self._reply):
            return False
        self.replies[host] = message
        self.waiting.discard(host)
        return True

    def end(self, host: str, message: object) -> None:
        """Wait no longer for `host` if `message` is its last one."""
        if host in self.waiting and isinstance(message, self.ends):
            self.ended[host] = message
            self.waiting.discard(host)

    def look(self) -> None:
        """Notice that all hosts have replied or ended."""
        if not self.waiting:
            self._is_answered.set()

    async def answered(self, within_s: float) -> None:
        """Wait until all hosts have replied or ended, for `within_s` seconds of listening at most."""
        with contextlib.suppress(TimeoutError):
            async with patience(within_s):
                await self._is_answered.wait()


Q = TypeVar("Q", bound=Question)  # type: ignore[type-arg]


class Fleet:
    """Links by host name. The inbox has messages of `protocol`, and those above."""

    def __init__(self, plan: RunPlan, agent: str) -> None:
        self.inbox = Inbox(len(plan.nodes))
        self._questions: list[Question[object]] = []
        self._ended: dict[str, object] = {}
        """Messages after which a host answers no more, by host."""

        self._work: asyncio.Future[object] | None = None
        """Work that an interrupt ends."""

        self._reasons: list[str] = []
        """Interrupts of that work."""

        self.links: dict[str, AgentLink] = {}
        self._cluster = plan.cluster
        self._agent = agent
        self._run = plan.run
        self._scopes = {node.host.name: Scope(plan, node) for node in plan.nodes}
        self._reported_foreign: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._interrupts = 0
        self._abandoned: list[AgentLink] = []
        self._heartbeats = Heartbeats([], 0.0)
        self._timeout_s = 0.0
        self._leads = True
        self._calling: dict[str, LinkError | None] = {}
        """Hosts to which a second connection is being opened, with the error of the last attempt."""

        self._opened_at = 0.0
        """Time at which this process began to prepare the nodes, if it does."""

    async def connect(self, names: Iterable[str], verb: str) -> dict[str, LinkError]:
        """Open links to `names` at the same time; return the errors of those that failed, by host."""
        wanted = tuple(names)
        if verb == "open" and not self._opened_at:
            self._opened_at = clock_now()
        allow_hosts(len(self._cluster.hosts))
        answers = await asyncio.gather(
            *(self._open(name, Call(verb, self._run)) for name in wanted),
            return_exceptions=True,
        )
        failures: dict[str, LinkError] = {}
        for name, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, LinkError):
                failures[name] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                self._listen(name, answer)
        return failures

    def post(self, message: object) -> None:
        """Put a message of the controller itself into the inbox, with "" as its host."""
        self.inbox.put("", message)

    async def ask(self, messages: Mapping[str, object], question: Q, within_s: float) -> Q:
        """Send each host its message; return `question` when all of them have replied or ended, or `within_s` later."""
        with self.asking(messages, question):
            sending = asyncio.ensure_future(self.send(messages))  # A host that reads nothing delays no other.
            try:
                await question.answered(within_s)
            finally:
                sending.cancel()
        return question

    @contextlib.contextmanager
    def asking(self, hosts: Iterable[str], question: Question[T]) -> Iterator[None]:
        """Pass the replies of `hosts` to `question` during this block."""
        question.waiting.update(hosts)
        for host in question.waiting & self._ended.keys():
            question.end(host, self._ended[host])
        question.look()
        self._questions.append(cast(Question[object], question))
        try:
            yield
        finally:
            self._questions.remove(cast(Question[object], question))

    def receive(self, host: str, message: object, size: int = 0) -> None:
        """Pass on a message of `host`: to the question that it answers, or into the inbox."""
        if isinstance(message, Question.ends):
            self._ended[host] = message
        is_reply = False
        for question in self._questions:
            question.end(host, message)
            is_reply = is_reply or question.take(host, message)
            question.look()
        if not is_reply and not isinstance(message, protocol.Pong):
            self.inbox.put(host, message, size)

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
        link, now = self.links.get(name), clock_now()
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

    def keep_watch(self, names: Iterable[str], timeout_s: float, *, leads: bool) -> None:
        """Send Ping to `names` from now on. The inbox gets NodeSilent.

        Of a process that `leads` the run, also Lost after `timeout_s`; another one then ends the silent connection, and
        calls the node until it answers.
        """
        self._heartbeats, self._timeout_s, self._leads = Heartbeats(names, time.monotonic()), timeout_s, leads
        self._spawn(self._watch())

    def dismiss(self, name: str) -> None:
        """Expect no more messages of `name`."""
        self._heartbeats.forget(name)

    def reconnect(self, name: str) -> None:
        """Attach again to `name`, whose connection ended; the inbox gets Reconnected, or Lost after the timeout."""
        self.links.pop(name, None)
        if name not in self._calling:  # A node that was silent before its connection ended is being called.
            self._begin_call(name)

    def interrupt(self, reason: str) -> None:
        """End the work that an interrupt may end; without any, the subscriber hears it. On the loop of this fleet."""
        self._interrupts += 1
        if self._work is not None and not self._work.done():
            self._reasons.append(reason)
            self._work.cancel()
        else:
            self.inbox.put_interrupt(Interrupted(reason))

    async def unless_interrupted(self, work: Coroutine[None, None, T]) -> T:
        """Run `work` and return its result. An interrupt cancels it and raises KeyboardInterrupt."""
        task = asyncio.ensure_future(work)
        self._work, self._reasons = cast("asyncio.Future[object]", task), []
        if (waiting := self.inbox.taken_interrupt()) is not None:
            self._reasons.append(waiting.reason)
            task.cancel()
        try:
            result = await task
        except asyncio.CancelledError:
            if not self._reasons:
                raise
        finally:
            self._work = None
            task.cancel()
            await asyncio.wait({task})
        if self._reasons:
            raise KeyboardInterrupt(self._reasons[0])
        return result

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
        link = await open_link(self._cluster[name], self._cluster.known_hosts, self._agent, call)
        link.hello = cast(protocol.Hello, self._scopes[name].confined(link.hello, frozenset()))
        return link

    def _listen(self, name: str, link: AgentLink) -> None:
        self.links[name] = link
        self._ended.pop(name, None)
        self._spawn(self._read(name, link))

    async def _read(self, name: str, link: AgentLink) -> None:
        try:
            async for message, size in link.messages():
                if self.links.get(name) is link:
                    self._take(name, link, message, size)
                    await asyncio.sleep(0)  # A node that floods with replies fills no inbox, and delays nobody.
                    await self.inbox.room(name)
            reason = await link.why_it_ended()
        except LinkError as error:
            reason = error.reason
        if not self._closing and self.links.get(name) is link:
            self.receive(name, ConnectionEnded(reason))

    def _take(self, name: str, link: AgentLink, message: object, size: int) -> None:
        """Pass on messages about the part of `name`; of others, report the first one."""
        confined = self._scopes[name].confined(message, link.requested)
        if isinstance(confined, ForeignMessage):
            if name in self._reported_foreign:
                return
            self._reported_foreign.add(name)
        self.receive(name, confined, size)

    async def _watch(self) -> None:
        while True:
            self._spawn(self.broadcast(protocol.Ping(self._leads), self._heartbeats.names))
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
                reason = f"no heartbeat for {self._timeout_s:g} s{why}"
                if self._leads:
                    await self._give_up(name, reason, error)
                elif name in self.links:
                    self._abandon(self.links.pop(name))
                    self.receive(name, ConnectionEnded(reason))
            for name in self._heartbeats.silent(now, self._timeout_s * SUSPECT):
                if name not in self._calling:
                    self.receive(name, NodeSilent(self._heartbeats.silence_s(name)))
                    self._begin_call(name)

    async def _give_up(self, name: str, reason: str, error: LinkError | None) -> None:
        self.dismiss(name)
        self.receive(name, Lost(reason, error is not None and error.host_answers))
        if (link := self.links.pop(name, None)) is not None:
            self._abandon(link)

    def _begin_call(self, name: str) -> None:
        self._calling[name] = None
        self._spawn(self._call(name))

    async def _call(self, name: str) -> None:
        """Call until `name` answers, sends a message on its old connection, or is given up."""
        began, old = time.monotonic(), self.links.get(name)
        try:
            while name in self._heartbeats.names:
                if old is not None and old.heard_at > began and self.links.get(name) is old:
                    self.receive(name, HeardAgain())
                    return
                if await self._call_once(name, old):
                    return
                await asyncio.sleep(RECONNECT_PAUSE_S)
        finally:
            del self._calling[name]

    async def _call_once(self, name: str, old: AgentLink | None) -> bool:
        left_s = self._timeout_s - self._heartbeats.silence_s(name) if self._leads else HELLO_TIMEOUT_S
        within_s = min(HELLO_TIMEOUT_S, max(1.0, left_s))
        try:
            link = await self._open(name, Call("attach", self._run, within_s, shared=False))
        except LinkError as error:
            self._calling[name] = error
            if error.is_final:
                await self._give_up(name, str(error), error)
            return error.is_final
        if name not in self._heartbeats.names:
            self._abandon(link)
            return True
        self._listen(name, link)
        if old is not None:
            self._abandon(old)
        self.receive(name, Reconnected())
        return True

    def _abandon(self, link: AgentLink) -> None:
        link.abandon()
        self._abandoned.append(link)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def raise_if_none(record: RunRecord, reasons: Mapping[str, str], *, of: Iterable[str] | None = None) -> None:
    """Raises ClusterNotReadyError when every node (`of` these) has a reason why it cannot be reached."""
    names = list(of) if of is not None else [node.host.name for node in record.plan.nodes]
    if len(reasons) >= len(names):
        raise ClusterNotReadyError(
            f"run {record.plan.run}: no agent of it answers on {fold(names)}",
            evidence=error_lines(record.plan.cluster.hosts, reasons),
            hint=f"pylaunch status {record.plan.run}",
        )


def on_fleet(
    plan: RunPlan,
    agent: str,
    work: Callable[[Fleet], Coroutine[None, None, T]],
    *,
    source: InterruptSource = signals,
    last_s: float = interrupts.LAST_S,
) -> T:
    """Run `with_fleet` on a new event loop; `source` interrupts the fleet.

    `work` may take `last_s` after the second interrupt.
    """

    async def interruptible(fleet: Fleet) -> T:
        loop = asyncio.get_running_loop()
        with source(lambda reason: loop.call_soon_threadsafe(fleet.interrupt, reason), last_s):
            return await work(fleet)

    return asyncio.run(with_fleet(plan, agent, interruptible))


async def with_fleet(plan: RunPlan, agent: str, work: Callable[[Fleet], Coroutine[None, None, T]]) -> T:
    """Return the result of `work` with connections to the nodes of `plan`, which are closed at the end."""
    with clock_kept():
        fleet = Fleet(plan, agent)
        try:
            return await work(fleet)
        finally:
            await fleet.close()
