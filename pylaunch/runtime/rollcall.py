"""A roll call over plain sockets, on the port where rank 0 will serve its framework: all say to rank 0 who they are.

    rank r  ──►  {"run": …, "rank": r}   and again when its try is over, to hear who is missing by then
            ◄──  {"missing": [3, 5]}
            ◄──  {"missing": []}         all are there; the port is free again

A connection that says something else is not one of ours, and is closed.
"""

from __future__ import annotations

import json
import select
import selectors
import socket
import time
from typing import Callable

RETRY_S = 0.2
ANSWER_S = 1.0
PATIENCE_WITH_A_PEER_S = 5.0
MAX_LINE = 1 << 20


class _Line:
    """A connection from which lines are read as they come."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._inbox = b""
        self.is_open = True

    def read(self) -> list[bytes]:
        """What has come, in whole lines."""
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


class Caller:
    """Rank 0's side. Listens from the first attempt until all have come."""

    def __init__(self, port: int, world_size: int, run: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._port = port
        self._world_size = world_size
        self._run = run
        self._clock = clock
        self._listener: socket.socket | None = None
        self._selector = selectors.DefaultSelector()
        self._present: dict[int, _Line] = {}

    def attempt(self, wait_s: float) -> frozenset[int]:
        """Take names for `wait_s`; who is missing. Raises OSError when the port cannot be had."""
        if self._listener is None:
            self._listener = _listen(self._port)
            self._selector.register(self._listener, selectors.EVENT_READ)
        until = self._clock() + wait_s
        while self._missing() and self._clock() < until:
            for key, _ in self._selector.select(max(0.0, until - self._clock())):
                if key.fileobj is self._listener:
                    self._accept(self._listener)
                else:
                    self._hear(key.data)
        missing = self._missing()
        if not missing:
            # Before anybody is told: who is told first may connect to what comes next on this port.
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
        connection.settimeout(PATIENCE_WITH_A_PEER_S)
        self._selector.register(connection, selectors.EVENT_READ, _Line(connection))

    def _hear(self, line: _Line) -> None:
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
        """Let go of everything."""
        if self._selector.get_map() is not None:
            for key in list(self._selector.get_map().values()):
                if isinstance(key.data, _Line):
                    key.data.close()
            self._selector.close()
        if self._listener is not None:
            self._listener.close()


class Called:
    """The side of every other rank. Goes on asking for a rank 0 that is not there yet."""

    def __init__(
        self,
        where: tuple[str, int],
        rank: int,
        run: str,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._where = where
        self._said = {"run": run, "rank": rank}
        self._clock = clock
        self._pause = pause
        self._line: _Line | None = None

    def attempt(self, wait_s: float) -> frozenset[int]:
        """Wait up to `wait_s` to hear that all are there; who is missing. Rank 0 is, while nobody answers."""
        until = self._clock() + wait_s
        while self._clock() < until:
            if self._line is None:
                self._connect(until)
            elif any(not missing for missing in self._heard(until)):
                self.close()
                return frozenset()
        return self._ask()

    def _ask(self) -> frozenset[int]:
        if self._line is None:
            return frozenset({0})
        self._line.write(self._said)
        missing = (self._heard(self._clock() + ANSWER_S) or [frozenset({0})])[-1]
        if not missing:
            self.close()
        return missing

    def _heard(self, until: float) -> list[frozenset[int]]:
        """Who was said to be missing, in all answers that come at once; none when nothing comes until then."""
        assert self._line is not None
        poll = select.poll()  # select() knows no descriptor above 1023, and a rank may have many files open.
        poll.register(self._line.socket, select.POLLIN)
        ready = poll.poll(max(0.0, until - self._clock()) * 1000)
        heard = [_missing_in(text) for text in self._line.read()] if ready else []
        if not self._line.is_open and all(heard):
            self.close()
        return heard

    def _connect(self, until: float) -> None:
        try:
            connection = socket.create_connection(self._where, timeout=max(0.1, until - self._clock()))
        except OSError:
            self._pause(min(RETRY_S, max(0.0, until - self._clock())))
            return
        self._line = _Line(connection)
        self._line.write(self._said)

    def close(self) -> None:
        """Let go of the connection."""
        if self._line is not None:
            self._line.close()
        self._line = None


def _missing_in(text: bytes) -> frozenset[int]:
    try:
        return frozenset(int(rank) for rank in json.loads(text)["missing"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return frozenset({0})


def _listen(port: int) -> socket.socket:
    """`port` on every address. With SO_REUSEADDR: a launcher that only holds it, or its last use, is no obstacle."""
    family, address = (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((address, port))
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener
