"""Program of one node in the network test: it listens, reports its ports, and connects to its peers on request.

It is not a reader of the probe but has its own SSH channel, because all nodes must listen before any connects.

    controller                       node
                    ◄── listening    ports, holder of the rendezvous port, duration of the login shell
    ping            ──►
                    ◄── time         its clock
    connect (peers) ──►              to every port of every peer, all at once
                    ◄── row          result of each connection
    end of input    ──►              exit

A connection exchanges introductions (name of the node, id of the conversation), then sends BULK bytes in full packets:
an introduction also passes a path that drops large packets, training does not.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import socket
import struct
import sys
import termios
import threading
import time
from typing import Any, Callable

from pylaunch.agent.shared import leases
from pylaunch.agent.shared.sockets import ports
from pylaunch.agent.shared.text import stat_of
from pylaunch.base.untrusted_json import parse_object

LONGEST_INTRODUCTION = 4096
LONGEST_LINE = 1 << 16

CONNECT_S = 2.0
"""Linux repeats a lost SYN after 1 s, so one lost packet does not look like a firewall."""

LOOK_UP_S = 2.0
ANSWER_S = 5.0
"""Time for the program of a peer whose kernel has accepted a connection or all bytes: a busy host runs it late."""

BULK_S = 2.0
"""Time in which the kernel of a peer acknowledges BULK bytes."""

BULK = 32 << 10
"""Bytes: several packets even of 9000 bytes, and less than a socket buffer."""

EPHEMERAL, RENDEZVOUS = "ephemeral", "rendezvous"
"""Kinds of ports: one that the kernel picks from the node's ephemeral range, as for NCCL, and that of the run."""

PORT_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
_COUNT = struct.Struct("=i")


class LateError(Exception):
    """The time of a wait has passed."""


class Stream:
    """TCP connection with time limits. Raises LateError and OSError.

    What has arrived while this process was held up is not late: the kernel looks again after the time has passed.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self._received = b""

    def _more(self, until: float) -> bool:
        """Receive more. Return False at the end."""
        self.socket.settimeout(_left(until))
        try:
            chunk = self.socket.recv(LONGEST_LINE)
        except socket.timeout:
            raise LateError from None
        self._received += chunk
        return bool(chunk)

    def line(self, until: float) -> bytes:
        """Return the next line; what has arrived at the end. Raises ValueError for a line without an end."""
        while b"\n" not in self._received:
            if len(self._received) > LONGEST_LINE:
                raise ValueError("a line without an end")
            if not self._more(until):
                break
        line, end, self._received = self._received.partition(b"\n")
        return line + end

    def exactly(self, size: int, until: float) -> bytes:
        """Return the next `size` bytes. Raises ConnectionError if the connection ends before."""
        while len(self._received) < size:
            if not self._more(until):
                raise ConnectionError("the connection ended")
        taken, self._received = self._received[:size], self._received[size:]
        return taken

    def unacknowledged(self) -> int:
        """Return the number of written bytes that the kernel of the peer has not acknowledged."""
        (count,) = _COUNT.unpack(fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(_COUNT.size)))
        return int(count)

    def write(self, content: bytes, until: float) -> None:
        """Write `content`."""
        try:
            while content:
                self.socket.settimeout(_left(until))
                content = content[self.socket.send(content) :]
        except socket.timeout:
            raise LateError from None


def _left(until: float) -> float:
    """Return the time until `until`, at least a millisecond: 0 would not wait at all."""
    return max(0.001, until - time.monotonic())


def _begin(work: Callable[..., None], *arguments: object) -> threading.Thread | None:
    """Do `work` in a thread, or here where this user may have no further one."""
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        work(*arguments)
        return None
    return thread


class MeshNode:
    """Node that runs this program."""

    def __init__(self, name: str, conversation: str) -> None:
        self._introduction = json.dumps({"conversation": conversation, "name": name}).encode() + b"\n"
        self._conversation = conversation

    def listen(self, port: int | None) -> dict[str, Any]:
        """Listen on `port` unless it is in use, and on ephemeral ports; return the ports and the holder of `port`."""
        listening = {EPHEMERAL: self._serve(0)}
        taken = self._rendezvous(port) if port is not None else None
        if port is not None and taken is None:
            listening[RENDEZVOUS] = port
        return {"ports": listening, "taken": taken, "ephemeral_range": _port_range()}

    def _rendezvous(self, port: int) -> dict[str, Any] | None:
        """Return the holder of `port`, or None after taking it. The lease shows a run that only binds the port."""
        lease = leases.take(leases.port_name(port))
        if isinstance(lease, leases.Holder):
            return {"by": str(lease), "run": lease.run if lease.is_ours and lease.run != leases.PROBE else ""}
        leases.show_run(leases.PROBE)
        threading.Thread(target=_turn_away, args=(lease,), daemon=True).start()
        try:
            self._serve(port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return {"by": "", "why": os.strerror(error.errno or 0), "run": ""}
            found = ports.listener(port)
            return {"by": str(found or "a process that cannot be seen"), "run": (found and found.run) or ""}
        return None

    def _serve(self, port: int) -> int:
        listener = ports.listen(port)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return int(listener.getsockname()[1])

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # The peer has given up.
                continue
            _begin(self._answer, connection)

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                stream = Stream(connection)
                if stream.line(time.monotonic() + ANSWER_S):
                    until = time.monotonic() + BULK_S + ANSWER_S
                    stream.write(self._introduction, until)
                    stream.exactly(BULK, until)
                    stream.write(b"whole\n", until)
            except (OSError, ValueError, LateError):
                pass  # ValueError: a line without an end.

    def connect(self, peers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Connect to `peers`, all at once, and return the results: peer → kind of port → result."""
        row: dict[str, dict[str, Any]] = {peer["name"]: dict.fromkeys(peer["ports"]) for peer in peers}

        def tried(name: str, address: str, kind: str, port: int) -> None:
            row[name][kind] = self._try(name, address, port)

        started = [
            _begin(tried, peer["name"], peer["address"], kind, port)
            for peer in peers
            for kind, port in peer["ports"].items()
        ]
        for thread in started:
            if thread is not None:
                thread.join()
        return row

    def _try(self, name: str, address: str, port: int) -> dict[str, Any]:
        try:
            connection = _connected(address, port)
        except ConnectionRefusedError:
            return {"end": "refused"}
        except (LateError, TimeoutError):
            return {"end": "silent"}
        except socket.gaierror as error:
            return {"end": "nameless", "text": error.strerror}
        except OSError as error:
            return {"end": "unreachable", "text": os.strerror(error.errno) if error.errno else str(error)}
        with connection:
            try:
                return self._talk(name, Stream(connection))
            except OSError:
                return {"end": "closed"}

    def _talk(self, name: str, stream: Stream) -> dict[str, Any]:
        until = time.monotonic() + ANSWER_S
        try:
            stream.write(self._introduction, until)
            line = stream.line(until)
        except LateError:
            return {"end": "mute"}
        except ValueError:  # A line without an end.
            return {"end": "stranger"}
        try:
            introduction = parse_object(line, LONGEST_INTRODUCTION)
            if introduction["conversation"] != self._conversation or introduction["name"] != name:
                return {"end": "other", "name": str(introduction["name"])[:100]}
        except (ValueError, KeyError, TypeError):
            return {"end": "stranger" if line else "closed"}
        try:
            if not self._bulk(stream):
                return {"end": "closed"}
        except (ValueError, LateError):
            return {"end": "stalled"}
        return {"end": "ok"}

    def _bulk(self, stream: Stream) -> bytes:
        """Send BULK bytes and return the answer. Raises LateError if they are not acknowledged within BULK_S."""
        until = time.monotonic() + BULK_S
        stream.write(b"." * BULK, until)
        try:
            return stream.line(until)
        except LateError:
            if stream.unacknowledged():
                raise
        return stream.line(time.monotonic() + ANSWER_S)


def _turn_away(lease: socket.socket) -> None:
    while True:
        select.select([lease], [], [])
        leases.turn_away(lease)


def _connected(address: str, port: int) -> socket.socket:
    """Return a connection to the first of the addresses of a name that accepts one. Raises the error of the first."""
    first: OSError | None = None
    found = _looked_up(address, port)
    until = time.monotonic() + CONNECT_S
    for family, kind, protocol, _, target in found:
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(_left(until))
        try:
            connection.connect(target)
        except socket.timeout:
            connection.close()
            raise LateError from None
        except OSError as error:
            connection.close()
            first = first or error
        else:
            return connection
    raise first or OSError(f"{address} has no address")


def _looked_up(address: str, port: int) -> Any:
    """Return the addresses of a name as `socket.getaddrinfo`, which waits for name servers.

    Raises socket.gaierror, also when no name server answers in time: nothing was sent to the peer.
    """
    try:
        return _addresses(address, port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass
    found: list[Any] = []

    def look_up() -> None:
        try:
            found.append(_addresses(address, port))
        except OSError as error:
            found.append(error)

    looking = _begin(look_up)
    if looking is not None:
        looking.join(LOOK_UP_S)
    if not found:
        raise socket.gaierror(socket.EAI_AGAIN, "no name server answers")
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0]


def _addresses(address: str, port: int, flags: int = 0) -> Any:
    try:
        return socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError:  # A part of the name is empty, or has more than 63 characters.
        raise socket.gaierror(socket.EAI_NONAME, "not a name of a host") from None


def _port_range() -> tuple[int, int] | None:
    try:
        with open(PORT_RANGE, encoding="ascii") as file:
            low, high = file.read().split()
    except OSError:
        return None
    return int(low), int(high)


def _shell_seconds(begun: float) -> float:
    """Return the duration of login shell and Python start: the shell replaced itself with this process by exec."""
    return begun - int(stat_of(os.getpid())[19]) / os.sysconf("SC_CLK_TCK")


def _print(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def main(begun: float) -> None:
    """Answer requests until the controller closes stdin. `begun`: start of this program in seconds since boot."""
    question = json.loads(sys.stdin.buffer.readline())
    node = MeshNode(question["name"], question["conversation"])
    listening = node.listen(question["port"])
    _print({"listening": listening, "shell_seconds": round(_shell_seconds(begun), 3)})
    for order in map(json.loads, sys.stdin.buffer):
        if "ping" in order:
            _print({"time": time.time()})
        else:
            _begin(lambda peers: _print({"row": node.connect(peers)}), order["connect"])
    os._exit(0)  # Connections and lookups of names may still be under way, and nothing needs a cleanup.
