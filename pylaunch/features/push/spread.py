"""Carry out a push: one program on each host, over its SSH channel; the swarm decides, this moves the bytes.

The messages are in `on_node/pieces.py`.
"""

import asyncio
import contextlib
import datetime
import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import PylaunchError
from pylaunch.features.push.on_node import pieces as node_side
from pylaunch.features.push.payload import Payload
from pylaunch.features.push.progress import PushProgress, PushResult, Received
from pylaunch.features.push.swarm import Send, Swarm
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.text.sanitise import visible_line
from pylaunch.probe.answers import NotAnAnswerError, decoded
from pylaunch.probe.program import STREAMED, program, streamed
from pylaunch.transport import interrupts
from pylaunch.transport.connections import connector_of, opening, patience, why_not_reached
from pylaunch.transport.connector import Connector
from pylaunch.transport.process import Child, ProgramNotFoundError, allow_hosts, describe_exit, last_line, spawn

FIRST_ANSWER_S = 60.0
"""For the connection, the program, and the list of files."""

SILENT_S = 30.0
"""A host that sends no message for this long is given up; it reports each second."""

STUCK_S = 300.0
"""A host that receives and writes nothing for this long is given up."""

LONGEST_REASON = 500
LEAVES_S = 3.0

ALWAYS = datetime.datetime(2000, 1, 1), datetime.datetime(9999, 12, 31)  # noqa: DTZ001 - x509 takes UTC
"""Validity: clocks of hosts may be wrong, and no host keeps the certificate after the push."""

SLOWEST = 20
"""A host that takes this many times as long as the slowest of those that have everything, and STUCK_S, is given up:
what it reports about its progress is its own claim."""

TICK_S = 1.0
CHUNK = 128 << 10
"""Bytes of a piece between which orders to the same host are sent."""


class _Ready(msgspec.Struct):
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    have: list[Annotated[int, msgspec.Meta(ge=0)]]


class _NodeMessage(msgspec.Struct):
    ready: _Ready | None = None
    has: list[Annotated[int, msgspec.Meta(ge=0)]] = []
    failed: tuple[Annotated[int, msgspec.Meta(ge=0)], str, str] | None = None
    at: int | None = None
    done: bool = False
    error: str | None = None


@dataclass
class _PieceHost:
    host: Host
    child: Child | None = None
    port: int = 0
    orders: deque[bytes] = field(default_factory=deque)
    pieces: deque[int] = field(default_factory=deque)
    has_work: asyncio.Event = field(default_factory=asyncio.Event)
    heard_at: float = 0.0
    at: int = 0
    moved_at: float = 0.0
    had: int = 0
    sent: int = 0
    ended: Received | None = None

    @property
    def is_given_up(self) -> bool:
        return self.ended is not None and self.ended.error is not None


class _SendingRate:
    """Limit of the bytes that this machine sends; 0 for none."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._free_at = time.monotonic()

    async def spend(self, size: int) -> None:
        """Wait until `size` further bytes may be sent."""
        if self.rate:
            begin = max(self._free_at, time.monotonic())
            self._free_at = begin + size / self.rate
            await asyncio.sleep(begin - time.monotonic())


def push(cluster: Cluster, payload: Payload, *, rate: int, on_progress: Callable[[PushProgress], None]) -> PushResult:
    """Put `payload` on every host of `cluster`. `rate` limits the bytes per second that this machine and each host
    send; 0 does not. Raises ChangedError when a source changes meanwhile, and KeyboardInterrupt."""
    allow_hosts(len(cluster.hosts))
    return interrupts.run(_Push(cluster, payload, rate, on_progress).run())


class HostFailedError(Exception):
    """A host cannot receive or serve the files, with the reason."""

    def __init__(self, reason: str, hint: str | None = None, *, is_unreachable: bool = False) -> None:
        super().__init__(reason)
        self.hint = hint
        self.is_unreachable = is_unreachable


async def why_program_ended(child: Child, connector: Connector) -> HostFailedError:
    """Wait for the end of a program that Python reads from its stdin, and return why it ended."""
    ended = await child.leave(LEAVES_S)
    if (failure := await why_not_reached(connector, ended)) is not None:
        return HostFailedError(failure.reason, failure.hint, is_unreachable=True)
    if ended.returncode in (126, 127):
        return HostFailedError(f"no Python at {ended.argv[-len(STREAMED) - 1]}", "it needs Python 3.8 or newer")
    return HostFailedError(f"its program ended: {last_line(ended.stderr, default=describe_exit(ended.returncode))}")


def new_identity() -> str:
    """Return a new private key and its self-signed certificate, as PEM: all hosts of one push present it to each
    other, and nobody else has it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pylaunch push")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), *ALWAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (private + certificate.public_bytes(serialization.Encoding.PEM)).decode()


class _Push:
    def __init__(
        self,
        cluster: Cluster,
        payload: Payload,
        rate: int,
        on_progress: Callable[[PushProgress], None],
    ) -> None:
        self._cluster = cluster
        self._payload = payload
        self._pace = _SendingRate(rate)
        self._on_progress = on_progress
        self._swarm = Swarm(len(payload.hashes), {host.name: host.topology for host in cluster.hosts})
        self._nodes = {host.name: _PieceHost(host) for host in cluster.hosts}
        self._first_line = json.dumps({**payload.order, "identity": new_identity(), "rate": rate}).encode() + b"\n"
        self._news = asyncio.Event()
        self._begun = time.monotonic()

    async def run(self) -> PushResult:
        failed: Exception | None = None
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._follow(node)) for node in self._nodes.values()]
                tasks += [group.create_task(self._write(node)) for node in self._nodes.values()]
                tasks.append(group.create_task(self._watch()))
                await self._decide()
                for task in tasks:
                    task.cancel()
        except* PylaunchError as errors:
            failed = errors.exceptions[0]  # Raised here, it would be in a group again.
        finally:
            children = [node.child for node in self._nodes.values() if node.child is not None]
            await asyncio.gather(*(child.leave(LEAVES_S) for child in children))
        if failed is not None:
            raise failed
        hosts = {name: node.ended for name, node in self._nodes.items() if node.ended is not None}
        wrong = {name: tuple(sorted(by)) for name, by in self._swarm.wrong.items()}
        return PushResult(hosts, wrong, time.monotonic() - self._begun)

    async def _decide(self) -> None:
        """Pass the decisions of the swarm on until every host has ended."""
        while any(node.ended is None for node in self._nodes.values()):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._news.wait()
            self._news.clear()
            fetches: dict[str, list[tuple[int, str, str, int]]] = {}
            for order in self._swarm.orders(time.monotonic()):
                if isinstance(order, Send):
                    self._nodes[order.host].pieces.append(order.piece)
                    self._nodes[order.host].has_work.set()
                    continue
                peer = self._nodes[order.source]
                fetch = (order.piece, order.source, peer.host.rank_address, peer.port)
                fetches.setdefault(order.host, []).append(fetch)
            for name, ordered in fetches.items():
                self._order(self._nodes[name], {"fetch": ordered})

    def _order(self, node: _PieceHost, message: Mapping[str, object]) -> None:
        node.orders.append(json.dumps(message).encode() + b"\n")
        node.has_work.set()

    async def _follow(self, node: _PieceHost) -> None:
        """Handle the messages of one host until it ends."""
        connector = connector_of(node.host, self._cluster.known_hosts)
        try:
            await self._connect(node, connector)
            assert node.child is not None
            while (line := await node.child.readline()) and not node.is_given_up:
                self._handle(node, line)
            raise await why_program_ended(node.child, connector)
        except HostFailedError as error:
            self._end(node, error)
        except ProgramNotFoundError as error:
            self._end(node, HostFailedError(error.message, error.hint))

    async def _connect(self, node: _PieceHost, connector: Connector) -> None:
        async with opening(connector, FIRST_ANSWER_S):
            node.child = child = await spawn(connector.argv((node.host.agent_python, *STREAMED)))
            try:
                async with patience(FIRST_ANSWER_S):
                    await child.send(streamed(program(node_side.main)) + self._first_line)
                    while not (line := await child.readline()).startswith(b"{"):
                        if not line:
                            raise await why_program_ended(child, connector)
            except ConnectionError:
                raise await why_program_ended(child, connector) from None
            except TimeoutError:
                failure = connector.timed_out(FIRST_ANSWER_S)
                raise HostFailedError(failure.reason, failure.hint, is_unreachable=True) from None
        node.heard_at = node.moved_at = time.monotonic()
        self._handle(node, line)

    def _handle(self, node: _PieceHost, line: bytes) -> None:
        try:
            message = decoded(line, _NodeMessage)
            pieces = [*message.has, *(message.failed or ())[:1], *(message.ready.have if message.ready else ())]
            if any(piece >= self._swarm.pieces for piece in pieces):
                raise NotAnAnswerError("it names a piece that does not exist")
            if pieces and not node.port and message.ready is None:
                raise NotAnAnswerError("it reports pieces before it is ready")
        except NotAnAnswerError as error:
            raise HostFailedError(f"its message is not understood: {error}") from None
        now = node.heard_at = time.monotonic()
        name = node.host.name
        if message.at is not None and message.at != node.at:
            node.at, node.moved_at = message.at, now
        if message.ready is not None and not node.port:
            node.port = message.ready.port
            node.had = sum(self._payload.size_of(piece) for piece in set(message.ready.have))
            self._swarm.join(name, message.ready.have)
        for piece in message.has:
            self._swarm.has(name, piece, now)
        if message.failed is not None:
            piece, sender, why = message.failed
            if not sender:  # SSH would have noticed other bytes.
                raise HostFailedError(f"it rejects a piece from this machine as wrong: does the memory of {name} fail?")
            self._swarm.failed(name, piece, sender, why)
        if message.error is not None:
            raise HostFailedError(visible_line(message.error)[:LONGEST_REASON])
        if message.done and node.ended is None:
            node.ended = Received(None, None, False, node.had, node.sent, now - self._begun)
        self._news.set()

    def _end(self, node: _PieceHost, error: HostFailedError) -> None:
        """End a host with an error; a host that has everything and ends later has it nevertheless."""
        if node.ended is None:
            seconds = time.monotonic() - self._begun
            node.ended = Received(str(error), error.hint, error.is_unreachable, node.had, node.sent, seconds)
        self._swarm.leave(node.host.name)
        self._news.set()

    async def _write(self, node: _PieceHost) -> None:
        """Send orders and pieces to one host; orders first."""
        while True:
            await node.has_work.wait()
            node.has_work.clear()
            with contextlib.suppress(ConnectionError):  # `_follow` reports why.
                await self._send_orders(node)
                while node.pieces:
                    await self._send_piece(node, node.pieces.popleft())

    async def _send_orders(self, node: _PieceHost) -> None:
        while node.orders and node.child is not None:
            await node.child.send(node.orders.popleft())

    async def _send_piece(self, node: _PieceHost, piece: int) -> None:
        content = await asyncio.to_thread(self._payload.read, piece)
        for offset in range(0, 0 if node.is_given_up else len(content), CHUNK):
            part = content[offset : offset + CHUNK]
            await self._pace.spend(len(part))
            await self._send_orders(node)
            if node.child is not None:
                header = {"piece": piece, "offset": offset, "size": len(part)}
                await node.child.send(json.dumps(header).encode() + b"\n" + part)
                node.sent += len(part)

    async def _watch(self) -> None:
        """Once a second: report the progress, let hosts know that this machine is there, and give silent ones up."""
        while True:
            await asyncio.sleep(TICK_S)
            for node in self._nodes.values():
                if node.child is not None and node.heard_at:
                    if not node.orders:
                        self._order(node, {})
                    if node.ended is None:
                        self._check(node, time.monotonic())
            self._on_progress(self._progress())

    def _check(self, node: _PieceHost, now: float) -> None:
        """Give a host up that is silent, stands still, or is much slower than the others."""
        if node.port and not self._swarm.is_due(node.host.name):
            node.moved_at = now
        if now - node.heard_at > SILENT_S:
            hint = f"check that {node.host.name} is up"
            self._end(node, HostFailedError(f"no message for {SILENT_S:g} s", hint, is_unreachable=True))
        elif now - node.moved_at > STUCK_S:
            self._end(node, HostFailedError(f"it received and wrote nothing for {STUCK_S:g} s; does its disk answer?"))
        elif now - self._begun > self._slowest_s():
            self._end(node, HostFailedError(f"it takes more than {SLOWEST} times as long as the other hosts"))

    def _slowest_s(self) -> float:
        size = self._payload.size
        ends = [each.ended for each in self._nodes.values() if each.ended is not None]
        whole = [end.seconds * size / (size - end.had) for end in ends if not end.error and end.had < size]
        return STUCK_S + SLOWEST * max(whole) if whole else math.inf

    def _progress(self) -> PushProgress:
        alive = [name for name, node in self._nodes.items() if node.ended is None or node.ended.error is None]
        pieces = sum(self._swarm.received(name) for name in alive) / max(1, len(alive))
        average = min(self._payload.size, int(pieces * self._payload.piece))
        whole = tuple(name for name in alive if self._nodes[name].ended is not None)
        return PushProgress(self._payload.size, average, whole, len(alive), time.monotonic() - self._begun)
