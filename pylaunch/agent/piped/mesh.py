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
import select
import socket
import sys
import threading
import time
from functools import partial
from typing import Any, Callable

from pylaunch.agent.shared import leases
from pylaunch.agent.shared.sockets import ports
from pylaunch.agent.shared.text import stat_of
from pylaunch.base.untrusted_json import parse_object

LONGEST_LINE = 4096

CONNECT_S = 2.0
"""Linux repeats a lost SYN after 1 s, so one lost packet does not look like a firewall."""

ANSWER_S = 5.0
"""Time for the program of a peer whose kernel has accepted a connection or all bytes: a busy host runs it late."""

STEP_S = 15.0
"""Time for all connections together, also for name servers that do not answer and for peers that send bit by bit."""

AT_LEAST_S = 0.05
"""Time for a connection after that: this process may have been held up."""

BULK = 32 << 10
"""Bytes: several packets even of 9000 bytes, and less than a socket buffer."""

EPHEMERAL, RENDEZVOUS = "ephemeral", "rendezvous"
"""Kinds of ports: one that the kernel picks from the node's ephemeral range, as for NCCL, and that of the run."""

PORT_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"


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
        connection.settimeout(ANSWER_S)
        try:
            with connection, connection.makefile("rb") as received:
                if received.readline(LONGEST_LINE):
                    connection.sendall(self._introduction)
                    if len(received.read(BULK)) == BULK:
                        connection.sendall(b"whole\n")
        except OSError:
            pass

    def connect(self, peers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Connect to `peers`, all at once, and return the results: peer → kind of port → result."""
        row: dict[str, dict[str, Any]] = {peer["name"]: {} for peer in peers}
        until = time.monotonic() + STEP_S
        started = [
            _begin(self._try, peer["name"], peer["address"], port, partial(_tell, row[peer["name"]], kind))
            for peer in peers
            for kind, port in peer["ports"].items()
        ]
        for thread in started:
            if thread is not None:
                thread.join(max(AT_LEAST_S, until - time.monotonic()))
        return {name: dict(ends) for name, ends in row.items()}

    def _try(self, name: str, address: str, port: int, tell: Callable[..., None]) -> None:
        """Connect, and `tell` how far that is: where it waits when the time is over is the result."""
        tell("nameless", text="no name server answers")
        try:
            found = _addresses(address, port)
            tell("silent")
            with _connected(found) as connection:
                tell("mute")
                try:
                    self._talk(name, connection, tell)
                except ConnectionError:
                    tell("closed")
        except (socket.timeout, TimeoutError):
            pass
        except ConnectionRefusedError:
            tell("refused")
        except socket.gaierror as error:
            tell("nameless", text=error.strerror)
        except OSError as error:
            tell("unreachable", text=os.strerror(error.errno) if error.errno else str(error))

    def _talk(self, name: str, connection: socket.socket, tell: Callable[..., None]) -> None:
        connection.settimeout(ANSWER_S)
        with connection.makefile("rb") as received:
            connection.sendall(self._introduction)
            line = received.readline(LONGEST_LINE)
            try:
                introduction = parse_object(line, LONGEST_LINE)
                is_peer = introduction["conversation"] == self._conversation and introduction["name"] == name
                other = str(introduction["name"])[:100]
            except (ValueError, KeyError, TypeError):
                return tell("stranger" if line else "closed")
            if not is_peer:
                return tell("other", name=other)
            tell("stalled")
            connection.sendall(b"." * BULK)
            return tell("ok" if received.readline(LONGEST_LINE) else "closed")


def _tell(ends: dict[str, Any], kind: str, end: str, **more: str) -> None:
    ends[kind] = {"end": end, **more}


def _turn_away(lease: socket.socket) -> None:
    while True:
        select.select([lease], [], [])
        leases.turn_away(lease)


def _connected(found: Any) -> socket.socket:
    """Return a connection to the first of the addresses that accepts one. Raises the error of the first."""
    first: OSError | None = None
    for family, kind, protocol, _, target in found:
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(CONNECT_S)
        try:
            connection.connect(target)
        except OSError as error:
            connection.close()
            first = first or error
        else:
            return connection
    raise first or OSError("it has no address")


def _addresses(address: str, port: int) -> Any:
    try:
        return socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
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
