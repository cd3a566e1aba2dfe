"""Messaging between the agents of one run: each reports its state, so that a failure reaches all without a controller.

Each agent listens on a TCP port of its own and learns the ports of the others with `Release`. It then greets all of
them once, and exchanges one message per second with its neighbours. An agent that begins to stop, for whatever reason,
repeats that to all others until all have answered. An agent whose run has ended sends that to its neighbours, which
then do not take its silence for a lost node.

A connection on which an answer is late is closed and opened again, because TCP itself waits longer and longer between
retransmissions. An agent from which nothing ever arrived is no lost node: a firewall blocks its port.

One message per line: the HMAC-SHA256 of the rest in hexadecimal, a space, a JSON object. The controller makes a random
key for each run and sends it to the agents over SSH; it is never on a command line and never on a disk. A message names
its sender, its recipient and a serial number that only increases, so that a recorded message cannot be replayed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import os
import selectors
import socket
import time
from functools import partial
from typing import Callable, Tuple

from pylaunch import protocol
from pylaunch.agent.shared.event_loop import EventLoop, Lines
from pylaunch.agent.shared.sockets import ports
from pylaunch.base.dataclass import asdict, dataclass, field, replace
from pylaunch.base.untrusted_json import UntrustedJsonError, parse_object
from pylaunch.protocol.heartbeats import Heartbeats

LONGEST_STATUS = 8192
"""Longest line in bytes; reasons are cut to fit."""

MAX_REASON = 1000
MAX_GRACE_S = 1e9


@dataclass(frozen=True)
class PeerStatus:
    """State of the run on the sender's node."""

    sender: str
    to: str
    serial: int
    answers: int = 0
    """Serial number of the message that this one answers; 0 for a message that expects an answer."""

    stop: str = ""
    """Reason of the stop, with the host where it began; "" while the run is not being stopped."""

    by_hand: bool = False
    """A person requested the stop."""

    grace_s: float = 0.0
    """Seconds until SIGKILL, once the run is being stopped."""

    over: bool = False
    """The run has ended on the sender's node and nothing of it is left."""


def encode_status(key: bytes, status: PeerStatus) -> bytes:
    """Return `status` as one line."""
    cut = replace(status, stop=status.stop[:MAX_REASON])
    body = json.dumps(asdict(cut), separators=(",", ":")).encode()
    return _mac(key, body) + b" " + body + b"\n"


def decode_status(key: bytes, line: bytes) -> PeerStatus:
    """Return the status in `line`. Raises WireError for a line that is not authentic, malformed or out of bounds."""
    mac, _, body = line.partition(b" ")
    if not hmac.compare_digest(mac, _mac(key, body)):
        raise protocol.WireError("expected a message with the key of this run")
    try:
        status = protocol.from_fields(PeerStatus, parse_object(body, LONGEST_STATUS))
    except UntrustedJsonError as error:
        raise protocol.WireError(f"expected a message of an agent: {error}") from None
    if status.serial < 0 or status.answers < 0 or not 0 <= status.grace_s <= MAX_GRACE_S:
        raise protocol.WireError("expected a message of an agent, got a number out of bounds")
    return replace(status, stop=status.stop[:MAX_REASON])


def _mac(key: bytes, body: bytes) -> bytes:
    return hmac.new(key, body, hashlib.sha256).hexdigest().encode()


Target = Tuple[socket.AddressFamily, str, int]

WATCHED = 3
"""Number of neighbours on each side. Six agents watch each node, and the cost per node is independent of the size of
the cluster."""

LOOK_UP_S = 2.0
"""Seconds for looking up all names together."""

TRY_S = 2.0
"""Timeout of a test connection. Linux repeats a lost SYN after 1 s, so one lost packet does not fail the test."""

OK, SILENT, REFUSED, NAMELESS, UNREACHABLE = "ok", "silent", "refused", "nameless", "unreachable: "
"""Results of a test connection; the last one is followed by the error of the system."""


def neighbours(me: str, names: list[str]) -> list[str]:
    """Return the nodes that `me` watches: the nearest in the ring of `names`, all nodes in rank order."""
    if me not in names:
        return []
    place, count = names.index(me), len(names)
    around = [names[(place + step) % count] for step in range(-WATCHED, WATCHED + 1)]
    return [name for name in dict.fromkeys(around) if name != me]


def look_up(addresses: dict[str, str]) -> dict[str, tuple[socket.AddressFamily, str]]:
    """Return the numeric address of each node, without nodes whose names cannot be resolved in time."""
    found: dict[str, tuple[socket.AddressFamily, str]] = {}
    until = time.monotonic() + LOOK_UP_S
    for name, address in addresses.items():
        flags = 0 if time.monotonic() < until else socket.AI_NUMERICHOST
        try:
            family, _, _, _, place = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM, flags=flags)[0]
        except (OSError, UnicodeError):  # UnicodeError: the name is no domain name.
            continue
        found[name] = (family, str(place[0]))
    return found


def try_connections(
    targets: dict[str, Target],
    on_incoming: Callable[[], None] = lambda: None,
    listener: socket.socket | None = None,
) -> dict[str, str]:
    """Connect to all `targets` at once, for TRY_S at most, and return the result of each. Nothing is sent.

    Calls `on_incoming` for connections that reach `listener` meanwhile.
    """
    ends: dict[str, str] = {}
    with selectors.DefaultSelector() as selector:
        if listener is not None:
            selector.register(listener, selectors.EVENT_READ)
        for name, (family, address, port) in targets.items():
            try:
                connecting = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:  # No descriptor is left, or the family is disabled here.
                ends[name] = UNREACHABLE + os.strerror(error.errno or 0)
                continue
            connecting.setblocking(False)
            connecting.connect_ex((address, port))  # The socket becomes writable when the connection succeeds or fails.
            selector.register(connecting, selectors.EVENT_WRITE, name)
        until = time.monotonic() + TRY_S
        left = TRY_S
        while len(ends) < len(targets) and left > 0:
            left = until - time.monotonic()  # At the end, look once more: this process may have been held up.
            for key, _ in selector.select(max(0.0, left)):
                if key.data is None:
                    on_incoming()
                    continue
                assert isinstance(key.fileobj, socket.socket)
                ends[key.data] = _result(key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
                selector.unregister(key.fileobj)
                key.fileobj.close()
        for key in list(selector.get_map().values()):
            if key.data is not None:
                ends[key.data] = SILENT
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()
    return ends


def _result(error: int) -> str:
    known = {0: OK, errno.ECONNREFUSED: REFUSED, errno.ETIMEDOUT: SILENT}
    return known.get(error, UNREACHABLE + os.strerror(error))


HEARTBEAT_S = 1.0
RETRY_S = 0.2
"""Interval of messages while the nodes greet each other, or an answer to news is missing."""

ANSWER_S = 2.0
GREETING_S = 3.0
FAREWELL_S = 3.0
"""Seconds that an agent whose run is over waits for the answers of its neighbours."""

OUTGOING = 128
INCOMING = 256
"""Connections at a time; further ones are opened a moment later."""


@dataclass
class Peer:
    """State of another agent of the run, as far as it is known."""

    name: str
    family: socket.AddressFamily
    address: tuple[str, int]
    connection: Lines | None = None
    unanswered_since: float | None = None
    """Time of the oldest message to it that has no answer."""

    last_serial: dict[bool, int] = field(default_factory=dict)
    """Serial numbers of its last answer (True) and of its last message that was none (False)."""

    answered: int = 0
    """Serial number of our last message that it answered."""

    is_stopping: bool = False
    is_over: bool = False


class Peers:
    """Connections to the other agents of this run."""

    def __init__(
        self, loop: EventLoop, me: str, addresses: dict[str, str], on_stop: Callable[[PeerStatus], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._loop = loop
        self._clock = clock
        self._me = me
        self._addresses = look_up({name: address for name, address in addresses.items() if name != me})
        self._names = list(addresses)
        self._neighbours = neighbours(me, self._names)
        self._on_stop = on_stop
        self._listener: socket.socket | None = None
        if len(addresses) > 1:
            with contextlib.suppress(OSError):  # No port is free: without messages, `Ready` reports port 0.
                self._listener = ports.listen(0)
        self._key = b""
        """Key of the run; empty before the release."""

        self._peers: dict[str, Peer] = {}
        self._incoming: list[Lines] = []
        self._heartbeats = Heartbeats([], 0.0)
        self._serial = 0
        self._news_serial = 0
        """Serial number of the first message that carries our latest state."""

        self._stop: tuple[str, float, bool] | None = None
        """Reason of the stop, time of SIGKILL, and whether a person requested it."""

        self._is_over = False
        self._next_send = 0.0
        self._greet_until = 0.0
        self._farewell_until: float | None = None
        if self._listener is not None:
            self._listener.setblocking(False)
            loop.watch(self._listener, self._accept)

    @property
    def port(self) -> int:
        """Port on which this agent listens; 0 when there are no others."""
        return self._listener.getsockname()[1] if self._listener is not None else 0

    def try_all(self, ports: dict[str, int]) -> dict[str, str]:
        """Try a connection to each of these hosts and return the results; {} once the run is released.

        The others do the same meanwhile.
        """
        if self._listener is None or self._key:
            return {}
        targets = {name: (*self._addresses[name], port) for name, port in ports.items() if name in self._addresses}
        ends = try_connections(targets, self._accept, self._listener)
        return {name: ends.get(name, NAMELESS) for name in ports if name != self._me}

    def start(self, ports: dict[str, int], key: str) -> None:
        """Begin messaging at the release of the run, with the ports of the others and the key of the run."""
        if self._listener is None or self._key or not key:
            return
        self._key = bytes.fromhex(key)
        for name, (family, address) in self._addresses.items():
            if ports.get(name):
                self._peers[name] = Peer(name, family, (address, ports[name]))
        now = self._clock()
        self._heartbeats = Heartbeats([], now)
        self._greet_until = now + GREETING_S
        self._next_send = now

    def announce_stop(self, reason: str, kill_at: float, *, by_hand: bool) -> None:
        """Send all others that this node stops, until each has answered. Only the first reason is sent."""
        if self._stop is None and self._key:
            self._stop = (reason, kill_at, by_hand)
            self._send_news()

    def announce_end(self) -> None:
        """Send the neighbours that nothing of the run is left on this node."""
        if not self._is_over:
            self._is_over = True
            self._farewell_until = self._clock() + FAREWELL_S
            self._send_news()

    def _send_news(self) -> None:
        self._news_serial = self._serial + 1
        self._next_send = 0.0

    @property
    def is_done(self) -> bool:
        """True when no other agent needs a message from this one."""
        if not self._key or not self._without_news():
            return True
        return self._farewell_until is not None and self._clock() >= self._farewell_until

    def silent(self, for_s: float) -> list[str]:
        """Return the neighbours silent for at least `for_s` seconds, after their first message and before their end."""
        return self._heartbeats.silent(self._clock(), for_s)

    def next_deadline(self) -> float | None:
        """Return the time at which `advance` must be called even if nothing happens."""
        return self._next_send if self._key else None

    def advance(self) -> None:
        """Send the messages that are due, and flush, open or close connections."""
        if not self._key:
            return
        now = self._clock()
        self._heartbeats.check_pause(now)
        if now >= self._next_send:
            without_news = self._without_news()
            greeted = [peer for peer in self._peers.values() if now < self._greet_until and not peer.last_serial]
            near = [self._peers[name] for name in self._neighbours if name in self._peers]
            for peer in {peer.name: peer for peer in (*without_news, *greeted, *near)}.values():
                self._send(peer, now)
            self._next_send = now + (RETRY_S if without_news or greeted else HEARTBEAT_S)
        for peer in self._peers.values():
            self._maintain(peer)
        for connection in list(self._incoming):
            self._maintain_incoming(connection)

    def _without_news(self) -> list[Peer]:
        """Return the agents that must know our latest state and have not answered it."""
        if self._stop is not None:
            addressed = list(self._peers.values())
        elif self._is_over:
            addressed = [self._peers[name] for name in self._neighbours if name in self._peers]
        else:
            return []
        return [
            peer for peer in addressed if not (peer.is_over or peer.is_stopping or peer.answered >= self._news_serial)
        ]

    # Outgoing connections

    def _send(self, peer: Peer, now: float) -> None:
        if peer.is_over:
            return
        if peer.unanswered_since is not None and now - peer.unanswered_since >= ANSWER_S:
            self._close(peer)
        if peer.connection is None and not self._connect(peer):
            return
        if peer.unanswered_since is None:
            peer.unanswered_since = now
        assert peer.connection is not None
        peer.connection.put(self._encoded(peer.name, answers=0))

    def _connect(self, peer: Peer) -> bool:
        if sum(each.connection is not None for each in self._peers.values()) >= OUTGOING:
            return False
        try:
            connecting = socket.socket(peer.family, socket.SOCK_STREAM)
        except OSError:  # No descriptor is left: retried with the next message.
            return False
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.connection = Lines(connecting, LONGEST_STATUS)
        connecting.connect_ex(peer.address)  # An error shows at the first read or write.
        peer.unanswered_since = None
        self._loop.watch(connecting, partial(self._receive_answers, peer, peer.connection))
        return True

    def _receive_answers(self, peer: Peer, connection: Lines) -> None:
        for status in self._received(connection):
            peer.unanswered_since = None
            peer.answered = max(peer.answered, status.answers)
            self._apply(status)
        is_current = peer.connection is connection and connection.is_open
        if is_current and peer.unanswered_since is None and peer.name not in self._neighbours:
            connection.is_open = False

    def _maintain(self, peer: Peer) -> None:
        if peer.connection is None:
            return
        peer.connection.flush()
        if peer.connection.is_open and not peer.is_over:
            self._loop.watch_writing(peer.connection.socket, wanted=peer.connection.waiting > 0)
        else:
            self._close(peer)

    def _close(self, peer: Peer) -> None:
        if peer.connection is not None:
            self._loop.forget(peer.connection.socket)
            peer.connection.close()
            peer.connection = None
            peer.unanswered_since = None

    # Incoming connections

    def _accept(self) -> None:
        """Accept a connection, and close it before the release: it is tried, or its agent connects again."""
        assert self._listener is not None
        try:
            connection = Lines(self._listener.accept()[0], LONGEST_STATUS)
        except OSError:
            return
        if not self._key:
            connection.close()
            return
        if len(self._incoming) >= INCOMING:
            self._drop(self._incoming[0])
        self._incoming.append(connection)
        self._loop.watch(connection.socket, partial(self._answer, connection))

    def _answer(self, connection: Lines) -> None:
        for status in self._received(connection):
            self._apply(status)
            connection.put(self._encoded(status.sender, answers=status.serial))

    def _maintain_incoming(self, connection: Lines) -> None:
        connection.flush()
        if not connection.is_open:
            self._drop(connection)

    def _drop(self, connection: Lines) -> None:
        self._incoming.remove(connection)
        self._loop.forget(connection.socket)
        connection.close()

    # Messages

    def _encoded(self, to: str, answers: int) -> bytes:
        self._serial += 1
        reason, kill_at, by_hand = self._stop or ("", 0.0, False)
        grace_s = max(0.0, kill_at - self._clock())
        status = PeerStatus(self._me, to, self._serial, answers, reason, by_hand, grace_s, self._is_over)
        return encode_status(self._key, status)

    def _received(self, connection: Lines) -> list[PeerStatus]:
        """Return the new messages for this agent; anything but a message from another agent closes the connection."""
        received = []
        try:
            for line in connection.receive():
                status = decode_status(self._key, line)
                peer = self._peers.get(status.sender)
                if peer is None or status.to != self._me:
                    raise protocol.WireError(f"message from {status.sender} for {status.to}")
                is_answer = status.answers > 0
                if status.serial > peer.last_serial.get(is_answer, 0):
                    peer.last_serial[is_answer] = status.serial
                    received.append(status)
        except protocol.WireError:
            connection.is_open = False
        return received

    def _apply(self, status: PeerStatus) -> None:
        peer = self._peers[status.sender]
        if status.over:
            peer.is_over = True
            self._heartbeats.forget(status.sender)
        elif status.sender in self._neighbours and not peer.is_over:
            # An older answer may arrive on another connection after the end.
            self._heartbeats.beat(status.sender, self._clock())
        if status.stop and not peer.is_stopping:
            peer.is_stopping = True
            self._on_stop(status)
