"""Roll call: a rendezvous of all ranks at rank 0, over plain sockets on the port that the framework uses afterwards.

    rank r  ──►  {"run": …, "rank": r}   repeated at the end of a try, to learn who is missing
            ◄──  {"missing": [3, 5]}
            ◄──  {"missing": []}         all ranks are connected; the port is free again

A connection that sends anything else is closed.
"""

from __future__ import annotations

import json
import select
import selectors
import socket
import time

RETRY_S = 0.2
ANSWER_S = 1.0
SEND_TIMEOUT_S = 5.0
MAX_LINE = 1 << 20


class _Connection:
    """Connection that is read line by line."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._inbox = b""
        self.is_open = True

    def read(self) -> list[bytes]:
        """Return the whole lines that have arrived."""
        try:
            chunk = self.socket.recv(1 << 16)
        except OSError:
            chunk = b""
        self.is_open = bool(chunk) and len(self._inbox) < MAX_LINE
        *lines, self._inbox = (self._inbox + chunk).split(b"\n")
        return lines

    def write(self, body: object) -> None:
        try:
            self.socket.sendall(json.dumps(body).encode() + b"\n")
        except OSError:
            self.is_open = False

    def close(self) -> None:
        self.socket.close()


class RollCallServer:
    """Side of rank 0, which listens from the first attempt until all ranks are connected."""

    def __init__(self, port: int, world_size: int, run: str) -> None:
        self._port = port
        self._world_size = world_size
        self._run = run
        self._listener: socket.socket | None = None
        self._selector = selectors.DefaultSelector()
        self._present: dict[int, _Connection] = {}

    def attempt(self, wait_s: float) -> frozenset[int]:
        """Accept ranks for `wait_s`; return the missing ones. Raises OSError if the port cannot be bound."""
        if self._listener is None:
            self._listener = listen(self._port)
            self._selector.register(self._listener, selectors.EVENT_READ)
        until = time.monotonic() + wait_s
        while self._missing() and time.monotonic() < until:
            for key, _ in self._selector.select(max(0.0, until - time.monotonic())):
                if key.fileobj is self._listener:
                    self._accept(self._listener)
                else:
                    self._receive(key.data)
        missing = self._missing()
        if not missing:
            # Close first: a rank that has the answer may connect to the framework on this port at once.
            self._listener.close()
            for line in self._present.values():
                line.write({"missing": []})
            self.close()
        return missing

    def _missing(self) -> frozenset[int]:
        return frozenset(range(1, self._world_size)) - frozenset(self._present)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection = listener.accept()[0]
        except OSError:
            return
        connection.settimeout(SEND_TIMEOUT_S)
        self._selector.register(connection, selectors.EVENT_READ, _Connection(connection))

    def _receive(self, line: _Connection) -> None:
        for text in line.read():
            rank = self._rank_in(text)
            if rank is None:
                line.is_open = False
            elif self._present.get(rank) is line:
                line.write({"missing": sorted(self._missing())})
            else:
                self._present[rank] = line
        if not line.is_open:
            self._present = {rank: other for rank, other in self._present.items() if other is not line}
            self._selector.unregister(line.socket)
            line.close()

    def _rank_in(self, text: bytes) -> int | None:
        try:
            body = json.loads(text)
            rank = body["rank"] if body["run"] == self._run else None
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return rank if isinstance(rank, int) and 0 < rank < self._world_size else None

    def close(self) -> None:
        """Close all connections and the port."""
        if self._selector.get_map() is not None:
            for key in list(self._selector.get_map().values()):
                if isinstance(key.data, _Connection):
                    key.data.close()
            self._selector.close()
        if self._listener is not None:
            self._listener.close()


class RollCallClient:
    """Side of every other rank, which retries until rank 0 listens."""

    def __init__(self, where: tuple[str, int], rank: int, run: str) -> None:
        self._where = where
        self._identity = {"run": run, "rank": rank}
        self._connection: _Connection | None = None

    def attempt(self, wait_s: float) -> frozenset[int]:
        """Wait up to `wait_s` for all ranks; return the missing ones. That is rank 0 while it does not answer."""
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            if self._connection is None:
                self._connect(until)
            elif any(not missing for missing in self._answers(until)):
                self.close()
                return frozenset()
        return self._ask()

    def _ask(self) -> frozenset[int]:
        if self._connection is None:
            return frozenset({0})
        self._connection.write(self._identity)
        missing = (self._answers(time.monotonic() + ANSWER_S) or [frozenset({0})])[-1]
        if not missing:
            self.close()
        return missing

    def _answers(self, until: float) -> list[frozenset[int]]:
        """Return the missing ranks of each answer that has arrived; [] if none arrives before `until`."""
        assert self._connection is not None
        poll = select.poll()  # select() knows no descriptor above 1023, and a rank may have many files open.
        poll.register(self._connection.socket, select.POLLIN)
        ready = poll.poll(max(0.0, until - time.monotonic()) * 1000)
        heard = [_missing_in(text) for text in self._connection.read()] if ready else []
        if not self._connection.is_open and all(heard):
            self.close()
        return heard

    def _connect(self, until: float) -> None:
        try:
            connection = socket.create_connection(self._where, timeout=max(0.1, until - time.monotonic()))
        except OSError:
            time.sleep(min(RETRY_S, max(0.0, until - time.monotonic())))
            return
        self._connection = _Connection(connection)
        self._connection.write(self._identity)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _missing_in(text: bytes) -> frozenset[int]:
    try:
        return frozenset(int(rank) for rank in json.loads(text)["missing"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return frozenset({0})


def listen(port: int) -> socket.socket:
    """Listen on `port` of all addresses. SO_REUSEADDR, which this sets, permits a port held by a launcher."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=both)
