"""A start: connect, prepare, hold at the barrier, release together. No rank exists before every node is ready."""

import asyncio
import re
import secrets
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from posixpath import dirname
from typing import TypeVar

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError, ExitCode, PylaunchError
from pylaunch.model.barrier import Barrier, Decision
from pylaunch.model.clock import ClockOffset
from pylaunch.model.diagnosis import host_errors
from pylaunch.model.diagnosis.host_errors import alike_errors
from pylaunch.model.hostset import fold, is_address
from pylaunch.model.run import Event, EventKind
from pylaunch.model.text.argv import pylaunch, quoted
from pylaunch.protocol.messages import PAUSE_S
from pylaunch.runs.connect.agent_link import AgentAbsentError
from pylaunch.runs.connect.bounds import ConnectionEnded, Interrupted
from pylaunch.runs.connect.fleet import Fleet, Question
from pylaunch.runs.events import Emitter, Start, clock_now, notice
from pylaunch.runs.prepare.launch import Install, Launch, node_task
from pylaunch.runs.sync.ship import NotShippedError, ship, shipped_lines
from pylaunch.runs.sync.tree import Tree
from pylaunch.transport.connections import AWAITED

T = TypeVar("T")

LEAST_LEAD_S = 0.01
MOST_LEAD_S = 0.05
"""Limits of the lead of the common instant, on top of the delay of the slowest connection. A node that gets the release
after the instant starts its ranks at once, so that a longer lead would not start the last of them earlier."""

SENT_S = 0.0005
"""Lead for each node, whose message has to be sent before the instant: the last of 1,000 is sent after 0.2 s."""

LISTENS_S = 1.0
"""Longest wait for one message of a node that prepares: a longer one shows that this process was held up."""

RELEASED_TIMEOUT_S = 10.0

KEY_BYTES = 32
"""Length of the key that authenticates messages between the agents of one run."""


class NodesRefusedError(ClusterNotReadyError):
    """Nodes cannot take part; `reasons` by host. Other hosts may replace them."""

    def __init__(
        self, message: str, reasons: Mapping[str, tuple[str, ...]], *, evidence: Sequence[str], hint: str | None
    ) -> None:
        super().__init__(message, evidence=evidence, hint=hint)
        self.reasons = reasons


class TakenError(NodesRefusedError):
    """Only other runs prevent this one: they hold its devices or its port, and it may wait in the queue."""


STOP_REQUESTED = "stop-requested"
"""Reason code of a node that refuses another attempt of a run that was stopped by hand."""

HOSTNAME_LOOPBACK = "hostname-loopback"
"""Reason code of a node that knows no interface to its peers, among others where the name of one does not resolve."""

TAKEN = ("device-leased", "port-leased")
"""Reason codes that disappear when another run ends."""


@dataclass(frozen=True)
class PreparedNodes:
    """Reports of the nodes of a run until all were ready, by host."""

    essentials: Mapping[str, Mapping[str, str]]
    """Name → value of facts that must be the same on every node."""

    libraries: Mapping[str, Mapping[str, str]]
    """Version of each distribution in the environment of the ranks."""

    clocks: Mapping[str, ClockOffset]
    connections: Mapping[str, Mapping[str, str]]
    """Results of the connections to the peers. A host that did not answer, or was not tried, is missing."""


class InterruptedBeforeReleaseError(PylaunchError):
    """Ctrl-C, or a stop by another controller, before the release: no rank was started."""

    exit_code = ExitCode.INTERRUPTED


class Session:
    """One attempt from the first connection to the release."""

    def __init__(self, launch: Launch, fleet: Fleet, emit: Emitter) -> None:
        plan = self._plan = launch.plan
        self._tasks = {node.host.name: node_task(plan, node, words, launch.record) for node, words in launch.commands}
        self._launch, self._fleet, self._emit = launch, fleet, emit
        self._reasons: dict[str, tuple[str, ...]] = {}
        self._hints: dict[str, list[str]] = {}
        self._known: set[tuple[str, str]] = set()  # Hosts with codes of reasons that follow from reported ones.
        self._taken, self._begun, self._confirming = 0, 0.0, 0.0
        self._phases: dict[str, float] = {}
        self._ports: dict[str, int] = {}
        self._port = plan.job.rendezvous_port
        """Rendezvous port; None until the first node has chosen it."""

        self._essentials: dict[str, Mapping[str, str]] = {}
        self._libraries: dict[str, Mapping[str, str]] = {}
        self._answered_s = MOST_LEAD_S
        """In which all nodes answered the last question before the release."""

    async def prepare(self, install: Install) -> PreparedNodes:
        """Connect to every node, ship the code, prepare, and let the nodes try to connect to each other.

        Raises ClusterNotReadyError with every reason of every host; no rank exists. An interrupt may end it.
        """
        begun, self._begun = time.monotonic(), clock_now()
        await self._connect(install)
        connected = shipped = time.monotonic()
        self._phases = {"connect": connected - begun}
        if self._launch.tree is not None and self._fleet.links:
            await self._ship(self._launch.tree)
            shipped = time.monotonic()
            self._phases["ship"] = shipped - connected
        await self._prepare()
        asked = time.monotonic()
        connections = await try_connections(self._fleet, {name: self._ports[name] for name in self._tasks})
        answered = time.monotonic()
        self._answered_s = answered - asked
        self._phases["prepare"] = answered - shipped
        clocks = {name: link.clock for name, link in self._fleet.links.items()}
        return PreparedNodes(self._essentials, self._libraries, clocks, connections)

    @property
    def lead_s(self) -> float:
        """Seconds that the release of all nodes needs before the common instant."""
        links = self._fleet.links
        return lead_s(self._answered_s, len(links)) + 2 * max(link.clock.uncertainty for link in links.values())

    async def confirm(self) -> None:
        """Ask all nodes once more. Raises NodesRefusedError if one is gone since it was ready.

        An interrupt may end it.
        """
        self._confirming = time.monotonic()
        pings = dict.fromkeys(self._fleet.links, protocol.Ping(leads=True))
        with AWAITED.hosts(pings, RELEASED_TIMEOUT_S):
            asked = await self._fleet.ask(pings, Question(protocol.Pong), RELEASED_TIMEOUT_S)
        for last in asked.ended.values():
            if isinstance(last, protocol.Stopping) and last.by_hand:
                raise InterruptedBeforeReleaseError(f"{last.reason} before any rank was started")
        for name in self._tasks.keys() - asked.replies.keys():
            self._refuse(name, f"it was ready, and then: {_end(asked.ended.get(name))}", None)
        if self._reasons:
            raise self._not_ready()

    async def release(self, instant: float | None = None) -> Start:
        """Release all prepared nodes at one instant: `instant`, in seconds since the epoch, or as soon as possible."""
        instant = clock_now() + self.lead_s if instant is None else instant
        start = await self._release(instant)
        phases = {**self._phases, "release": time.monotonic() - self._confirming}
        self._report(EventKind.RELEASED, None, f"rendezvous port {self._port}", seconds={**phases, "skew": start})
        clocks = sorted((link.clock.uncertainty for link in self._fleet.links.values()), reverse=True)
        return Start(phases, start, sum(clocks[:2]), instant, self._begun)

    async def _connect(self, install: Install) -> None:
        self._emit(notice(f"connecting to {fold(self._tasks)}"))
        failures = await self._fleet.connect(tuple(self._tasks), "open")
        absent = [name for name, error in failures.items() if isinstance(error, AgentAbsentError)]
        if absent:
            self._emit(notice(f"installing the agent on {fold(absent)}"))
            unwanted = threading.Event()
            try:
                refused = await asyncio.to_thread(install, absent, unwanted)
            finally:
                unwanted.set()
            for name, reason in refused.items():
                self._refuse(name, reason, room_hint(name, reason, self._plan.cluster[name].node_root))
            failures |= await self._fleet.connect([name for name in absent if name not in refused], "open")
            for name in absent:
                if name in refused or name in self._fleet.links:
                    failures.pop(name)
        for name, error in failures.items():
            is_absent = isinstance(error, AgentAbsentError)
            unlike = "the agent was installed, but no archive there has its content (sha256sum)"
            self._refuse(name, unlike if is_absent else error.reason, error.hint)

    async def _ship(self, tree: Tree) -> None:
        """Ship the code of the run to every connected node."""
        cluster = self._plan.cluster.only(tuple(self._fleet.links))
        self._emit(notice(f"shipping code to {fold(self._fleet.links)}"))
        answers = await ship(tree, self._fleet, cluster)
        for name, answer in answers.items():
            if isinstance(answer, NotShippedError):
                self._known |= {(name, code) for code in answer.implies}
                self._refuse(name, str(answer), answer.hint)
        for line in shipped_lines(tree, answers):
            self._emit(notice(line))

    async def _prepare(self) -> None:
        """Prepare all connected nodes, also when others are missing, so that all reasons are reported at once."""
        if self._fleet.links:
            self._emit(notice(f"preparing {fold(self._fleet.links)}"))
        secrets = dict(self._launch.secrets)
        await self._fleet.send({name: protocol.Prepare(self._tasks[name], secrets) for name in self._fleet.links})
        now = time.monotonic()
        barrier = Barrier(frozenset(self._tasks), now + self._plan.job.start_timeout.total_seconds())
        for name, reasons in self._reasons.items():
            barrier = barrier.with_refused(name, reasons, now)
        with AWAITED.hosts(self._fleet.links, barrier.deadline - now) as answered:
            while (decision := barrier.decide(time.monotonic())) is Decision.WAIT:
                now = time.monotonic()
                within_s = min(LISTENS_S, max(0.0, barrier.deadline - now))
                heard = await self._hear(within_s)
                if (held_up_s := time.monotonic() - now - within_s) > PAUSE_S:
                    barrier = barrier.with_pause(held_up_s)
                if heard is not None:
                    barrier = self._heard(barrier, *heard)
                    if heard[0] not in barrier.silent:
                        answered(heard[0])
        if decision is Decision.ABORT:
            if barrier.is_settling and barrier.silent:
                self._emit(notice(f"note: {fold(barrier.silent)} had not answered when another host refused"))
            for name in () if barrier.is_settling else barrier.silent:
                late = f"not ready within {self._plan.job.start_timeout.total_seconds():g} s"
                self._refuse(name, late, f"{pylaunch('check', '--limit', name)}  # or give them more: --start-timeout")
            raise self._not_ready()

    async def _hear(self, within_s: float) -> tuple[str, object] | None:
        try:
            async with asyncio.timeout(within_s):
                return await self._fleet.inbox.hear()
        except TimeoutError:
            return None

    def _heard(self, barrier: Barrier, host: str, message: object) -> Barrier:
        match message:
            case protocol.Ready():
                self._essentials[host] = message.essentials
                self._libraries[host] = message.libraries
                self._ports[host] = message.port
                self._port = message.rendezvous_port if message.rendezvous_port is not None else self._port
                self._report(EventKind.PREPARED, host, "; ".join(message.removed))
                return barrier.with_prepared(host)
            case protocol.Refused():
                for reason in message.reasons:
                    if reason.code == STOP_REQUESTED:
                        raise InterruptedBeforeReleaseError(f"{reason.message} before any rank was started")
                    if (host, reason.code) in self._known or (reason.code == HOSTNAME_LOOPBACK and self._misses_a_name):
                        continue  # A consequence of a reason that is reported, here or of the peer that is missing.
                    self._taken += reason.code in TAKEN
                    self._refuse(host, reason.message, reason.hint or None)
            case protocol.Failed():
                self._refuse(host, message.message, None)
            case ConnectionEnded() if host not in barrier.refused:
                self._refuse(host, message.reason, None)
            case protocol.Stopping() if message.by_hand:
                raise InterruptedBeforeReleaseError(f"{message.reason} before any rank was started")
            case _:
                return barrier
        return barrier.with_refused(host, self._reasons.get(host, ()), time.monotonic())

    async def _release(self, instant: float) -> float:
        """Send every node the same instant on its own clock, and return the measured skew."""
        links = self._fleet.links
        key = secrets.token_hex(KEY_BYTES)
        # A node that learns of a failure elsewhere before its own instant ends without a release. The follower judges
        # nodes that stay silent.
        released = Question(protocol.Released)
        with self._fleet.asking(links, released):
            await self._fleet.send(
                {
                    name: protocol.Release(link.clock.to_node(instant), self._ports, key, self._port)
                    for name, link in links.items()
                }
            )
            try:
                await self._fleet.unless_interrupted(released.answered(RELEASED_TIMEOUT_S))
            except KeyboardInterrupt as interrupt:  # Ranks may run: the follower stops them.
                self._fleet.inbox.put_interrupt(Interrupted(str(interrupt)))
        times = {name: self._fleet.our_time(name, message.time) for name, message in released.replies.items()}
        for name in times:
            self._report(EventKind.RELEASED, name)
        return max(times.values()) - min(times.values()) if times else 0.0

    @property
    def _misses_a_name(self) -> bool:
        """A host that is named, not addressed, has no connection."""
        missing = [node.host for node in self._plan.nodes if node.host.name not in self._fleet.links]
        return any(not is_address(host.rank_address) for host in missing)

    def _refuse(self, host: str, reason: str, hint: str | None) -> None:
        self._reasons[host] = (*self._reasons.get(host, ()), reason)
        if hint is not None:
            self._hints.setdefault(host, []).append(hint)
        self._report(EventKind.REFUSED, host, reason)

    def _not_ready(self) -> ClusterNotReadyError:
        reasons = {host: self._reasons[host] for host in self._tasks if host in self._reasons}
        evidence = [f"{hosts}: {reason}" for hosts, reason in alike_errors(self._plan.cluster.hosts, reasons)]
        hints = {host: self._hints[host] for host in self._tasks if host in self._hints}
        is_taken = self._taken == sum(map(len, self._reasons.values()))
        return (TakenError if is_taken else NodesRefusedError)(
            f"{len(self._reasons)} of {len(self._tasks)} hosts cannot take part, so no rank was started",
            self._reasons,
            evidence=evidence,
            hint="\n      ".join(host_errors.folded(hints)) or None,
        )

    def _report(
        self, kind: EventKind, host: str | None, text: str = "", seconds: Mapping[str, float] | None = None
    ) -> None:
        self._emit(Event(clock_now(), kind, host, text=text, seconds=seconds or {}))


def room_hint(host: str, reason: str, root: str) -> str | None:
    """Return the command that shows the room on `host` if an installation in `root`, by way of /tmp, lacked it."""
    if re.search(r"is full|no inodes left|No space left|quota exceeded", reason) is None:
        return None
    if "quota" in reason:
        return f"on {host}: quota -s"
    # The directory above: the name of `root` may hold the user of the node, and the installation makes it.
    show, above = "df -i" if "inodes" in reason else "df -h", quoted((dirname(root.rstrip("/")),))
    return f"on {host}: {show} {above} /tmp"


async def before_release(fleet: Fleet, work: Coroutine[None, None, T]) -> T:
    """Await `work`. An interrupt cancels it and raises InterruptedBeforeReleaseError."""
    try:
        return await fleet.unless_interrupted(work)
    except KeyboardInterrupt as interrupt:
        raise InterruptedBeforeReleaseError(f"{interrupt} before any rank was started") from None


def lead_s(answered_s: float, nodes: int) -> float:
    """Return the lead of the common instant: twice the seconds in which all nodes answered the last question, within
    limits, and the time to send the release to all."""
    return min(max(LEAST_LEAD_S, 2 * answered_s), MOST_LEAD_S) + SENT_S * nodes


def _end(last: object) -> str:
    """Return why a node whose last message is `last` does not answer."""
    match last:
        case ConnectionEnded(reason) | protocol.Failed(reason) | protocol.Stopping(reason):
            return reason
    return f"no answer within {RELEASED_TIMEOUT_S:g} s"


ALL_PAIRS = 32
"""Up to this many nodes, every node tries every other: 992 connections, 31 from each.

Every agent listens on an ephemeral port, as NCCL and gloo do. Each tries the agents of others, in both directions. A
packet that a firewall drops costs TRY_S of `agent/peers.py`; connections that succeed cost one round trip.
"""

ANSWER_S = 6.0
"""Time-out for the answer of an agent: three times that of a connection which nobody accepts."""


def targets(hosts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the peers that each of `hosts` (in rank order) tries: all, or beyond ALL_PAIRS hosts the first one and the
    two neighbours in the ring."""
    count = len(hosts)
    found = {}
    for place, host in enumerate(hosts):
        tried = hosts if count <= ALL_PAIRS else (hosts[0], hosts[place - 1], hosts[(place + 1) % count])
        found[host] = tuple(name for name in dict.fromkeys(tried) if name != host)
    return found


async def try_connections(fleet: Fleet, ports: Mapping[str, int]) -> dict[str, Mapping[str, str]]:
    """Return the results of the connections: host → peer → one of `agent.neighbours.ENDS`.

    `ports`: where the agent of each host listens, in rank order; 0 is nowhere, and nobody tries it. Hosts that did not
    answer are missing.
    """
    wanted = targets([host for host, port in ports.items() if port])
    orders = {host: protocol.TryPeers({peer: ports[peer] for peer in peers}) for host, peers in wanted.items() if peers}
    answers = (await fleet.ask(orders, Question(protocol.PeersTried), ANSWER_S)).replies
    return {
        host: {peer: end for peer, end in tried.ends.items() if peer in wanted.get(host, ())}
        for host, tried in answers.items()
    }
