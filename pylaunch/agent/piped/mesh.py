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
import json
import os
import socket
import sys
import time

from pylaunch.agent.piped.tasks import FOREVER, READ, WRITE, LateError, Stream, Tasks
from pylaunch.agent.shared import leases, ports
from pylaunch.agent.shared.untrusted_json import parse_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from pylaunch.agent.piped.tasks import Task

LONGEST_INTRODUCTION = 4096

CONNECT_S = 2.0
"""Linux repeats a lost SYN after 1 s, so one lost packet does not look like a firewall."""

LOOK_UP_S = 2.0
ANSWER_S = 5.0
"""Time for the program of a peer whose kernel has accepted a connection or all bytes: a busy host runs it late."""

BULK_S = 2.0
"""Time in which the kernel of a peer acknowledges BULK bytes."""

BULK = 32 << 10
"""Bytes: several packets even of 9000 bytes, and less than a socket buffer."""

EPHEMERAL = 2
"""Number of ports that the kernel picks from the node's ephemeral range, as for NCCL and gloo."""

RENDEZVOUS = "rendezvous"
PORT_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"


class MeshNode:
    """Node that runs this program."""

    def __init__(self, name: str, conversation: str, tasks: Tasks) -> None:
        self._introduction = json.dumps({"conversation": conversation, "name": name}).encode() + b"\n"
        self._conversation = conversation
        self._tasks = tasks

    def listen(self, port: int | None) -> dict[str, Any]:
        """Listen on `port` unless it is in use, and on ephemeral ports; return the ports and the holder of `port`."""
        listening: dict[str, int] = {}
        for index in range(EPHEMERAL):
            listening[f"ephemeral {index}"] = self._serve(0)
        taken = self._rendezvous(port) if port is not None else None
        if port is not None and taken is None:
            listening[RENDEZVOUS] = port
        return {"ports": listening, "taken": taken, "ephemeral_range": _port_range()}

    def _rendezvous(self, port: int) -> dict[str, Any] | None:
        """Return the holder of `port`, or None after taking it. The lease shows a run that only binds the port."""
        lease = leases.take(leases.port_name(port))
        if isinstance(lease, leases.Holder):
            return {"by": str(lease), "run": lease.run if lease.is_ours and lease.run != leases.PROBE else ""}
        self._tasks.start(_answer_lease(lease))
        try:
            self._serve(port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return {"by": "", "why": os.strerror(error.errno or 0), "run": ""}
            found = ports.listener(port)
            return {"by": str(found or "a process that cannot be seen"), "run": (found and found.run) or ""}
        return None

    def _serve(self, port: int) -> int:
        listener = _listener(port)
        listener.setblocking(False)
        self._tasks.start(self._accept(listener))
        return int(listener.getsockname()[1])

    def _accept(self, listener: socket.socket) -> Task:
        while True:
            yield listener.fileno(), READ, FOREVER
            try:
                connection, _ = listener.accept()
            except OSError:  # The peer has given up.
                continue
            self._tasks.start(self._answer(connection))

    def _answer(self, connection: socket.socket) -> Task:
        with connection:
            try:
                stream = Stream(connection)
                if (yield from stream.line(time.monotonic() + ANSWER_S)):
                    until = time.monotonic() + BULK_S + ANSWER_S
                    yield from stream.write(self._introduction, until)
                    yield from stream.exactly(BULK, until)
                    yield from stream.write(b"whole\n", until)
            except (OSError, ValueError, LateError):
                pass  # ValueError: a line without an end.

    def connect(self, peers: list[dict[str, Any]], on_row: Callable[[dict[str, dict[str, Any]]], None]) -> None:
        """Connect to `peers`, all at once, and call `on_row` with the results: peer → kind of port → result."""
        row: dict[str, dict[str, Any]] = {peer["name"]: dict.fromkeys(peer["ports"]) for peer in peers}
        left = {(peer["name"], kind) for peer in peers for kind in peer["ports"]}

        def tried(name: str, address: str, kind: str, port: int) -> Task:
            row[name][kind] = yield from self._try(name, address, port)
            left.remove((name, kind))
            if not left:
                on_row(row)

        for peer in peers:
            for kind, port in peer["ports"].items():
                self._tasks.start(tried(peer["name"], peer["address"], kind, port))
        if not peers:
            on_row(row)

    def _try(self, name: str, address: str, port: int) -> Task:
        begun = time.monotonic()
        try:
            connection = yield from _connected(address, port)
        except ConnectionRefusedError:
            return {"end": "refused"}
        except (LateError, TimeoutError):
            return {"end": "silent"}
        except socket.gaierror as error:
            return {"end": "nameless", "text": error.strerror}
        except OSError as error:
            return {"end": "unreachable", "text": os.strerror(error.errno) if error.errno else str(error)}
        seconds = time.monotonic() - begun
        with connection:
            try:
                found = yield from self._talk(name, Stream(connection))
            except OSError:
                return {"end": "closed"}
            return {**found, "seconds": round(seconds, 5)}

    def _talk(self, name: str, stream: Stream) -> Task:
        until = time.monotonic() + ANSWER_S
        try:
            yield from stream.write(self._introduction, until)
            line = yield from stream.line(until)
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
            if not (yield from self._bulk(stream)):
                return {"end": "closed"}
        except (ValueError, LateError):
            return {"end": "stalled"}
        return {
            "end": "ok",
            "segment": stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG),
            "family": int(stream.socket.family),
        }

    def _bulk(self, stream: Stream) -> Task:
        """Send BULK bytes and return the answer. Raises LateError if they are not acknowledged within BULK_S."""
        until = time.monotonic() + BULK_S
        yield from stream.write(b"." * BULK, until)
        try:
            return (yield from stream.line(until))
        except LateError:
            if stream.unacknowledged():
                raise
        return (yield from stream.line(time.monotonic() + ANSWER_S))


def _answer_lease(lease: socket.socket) -> Task:
    while True:
        yield lease.fileno(), READ, FOREVER
        leases.answer(lease, leases.PROBE, [], time.time())


def _connected(address: str, port: int) -> Task:
    """Return a connection to the first of the addresses of a name that accepts one. Raises the error of the first."""
    first: OSError | None = None
    found = yield from _looked_up(address, port, time.monotonic() + LOOK_UP_S)
    until = time.monotonic() + CONNECT_S
    for family, kind, protocol, _, target in found:
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            number = connection.connect_ex(target)
            if number == errno.EINPROGRESS:
                if not (yield connection.fileno(), WRITE, until):
                    raise LateError
                number = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number == 0:
                return connection
            first = first or OSError(number, os.strerror(number))
        except LateError:
            connection.close()
            raise
        connection.close()
    raise first or OSError(f"{address} has no address")


def _looked_up(address: str, port: int, until: float) -> Task:
    """Return the addresses of a name as `socket.getaddrinfo`, which waits for name servers, in a thread.

    Raises socket.gaierror, also when no name server answers in time: nothing was sent to the peer.
    """
    try:
        return _addresses(address, port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass
    import threading  # noqa: PLC0415 -- only for names

    found: list[Any] = []
    done, noting = socket.socketpair()

    def look_up() -> None:
        with noting:
            try:
                found.append(_addresses(address, port))
            except OSError as error:
                found.append(error)

    threading.Thread(target=look_up, daemon=True).start()
    with done:
        if not (yield done.fileno(), READ, until):
            raise socket.gaierror(socket.EAI_AGAIN, "no name server answers")
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0]


def _addresses(address: str, port: int, flags: int = 0) -> Any:
    try:
        return socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError:  # A part of the name is empty, or has more than 63 characters.
        raise socket.gaierror(socket.EAI_NONAME, "not a name of a host") from None


def _listener(port: int) -> socket.socket:
    """Return a listening socket on every address of both families, if both exist. Raises OSError."""
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind((address, port))
            listener.listen(256)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRNOTAVAIL:
                raise
    raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))


def _port_range() -> tuple[int, int] | None:
    try:
        with open(PORT_RANGE, encoding="ascii") as file:
            low, high = file.read().split()
    except OSError:
        return None
    return int(low), int(high)


def _shell_seconds(begun: float) -> float:
    """Return the duration of login shell and Python start: the shell replaced itself with this process by exec."""
    with open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    return begun - ticks / os.sysconf("SC_CLK_TCK")


def _print(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def _converse(begun: float, tasks: Tasks) -> Task:
    question = json.loads(sys.stdin.buffer.readline())
    node = MeshNode(question["name"], question["conversation"], tasks)
    listening = node.listen(question["port"])
    _print({"listening": listening, "shell_seconds": round(_shell_seconds(begun), 3)})
    stdin = sys.stdin.fileno()
    received = b""
    while True:  # Each order arrives only after the answer to the one before it, so none is in Python's buffer.
        yield stdin, READ, FOREVER
        chunk = os.read(stdin, 1 << 16)
        if not chunk:
            return
        *lines, received = (received + chunk).split(b"\n")
        for order in map(json.loads, lines):
            if "ping" in order:
                _print({"time": time.time()})
            else:
                node.connect(order["connect"], lambda row: _print({"row": row}))


def main(begun: float) -> None:
    """Answer requests until the controller closes stdin. `begun`: start of this program in seconds since boot."""
    tasks = Tasks()
    tasks.run_until_ended(_converse(begun, tasks))
    sys.stdout.flush()
    os._exit(0)  # Lookups of names may still run, and nothing needs a cleanup.
