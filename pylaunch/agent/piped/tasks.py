"""Tasks that wait for descriptors in one thread: `asyncio` in a small part, without the 40 ms of its import.

A task is a generator. It yields a `Wait` and is sent True when the descriptor is ready, False when its time has passed.
"""

from __future__ import annotations

import select
import socket
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generator, Tuple

    Wait = Tuple[int, int, float]
    """Descriptor, events of `select.poll`, monotonic time until which to wait."""

    Task = Generator[Wait, bool, Any]

READ = select.POLLIN
WRITE = select.POLLOUT
FOREVER = float("inf")

LOOK_S = 0.05
"""Precision of time limits."""

LONGEST_LINE = 1 << 16
_COUNT = struct.Struct("=i")


class LateError(Exception):
    """The time of a wait has passed."""


class Tasks:
    """Tasks that run until they wait, and the descriptors that they wait for."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._waiting: dict[int, tuple[Task, float]] = {}
        self._limited = 0
        """Number of tasks whose wait has a limit."""

    def start(self, task: Task) -> None:
        """Run `task` until it waits or ends."""
        self._run(task, None)

    def _run(self, task: Task, sent: bool | None) -> None:
        try:
            descriptor, events, until = next(task) if sent is None else task.send(sent)
        except StopIteration:
            return
        self._waiting[descriptor] = task, until
        self._limited += until < FOREVER
        self._poll.register(descriptor, events)

    def run_until_ended(self, main: Task) -> None:
        """Run all tasks until `main` has ended."""
        ended: list[bool] = []
        self.start(_noting(main, ended))
        look_at = 0.0
        while not ended:
            for descriptor, _ in self._poll.poll(1000 * LOOK_S if self._limited else None):
                self._resume(descriptor, is_ready=True)
            now = time.monotonic()
            if self._limited and now >= look_at:
                look_at = now + LOOK_S
                late = [each for each, (_, until) in self._waiting.items() if until <= now]
                # What has arrived while this process was held up is not late.
                arrived = {descriptor for descriptor, _ in self._poll.poll(0)} if late else set()
                for descriptor in late:
                    self._resume(descriptor, is_ready=descriptor in arrived)

    def _resume(self, descriptor: int, *, is_ready: bool) -> None:
        task, until = self._waiting.pop(descriptor)
        self._limited -= until < FOREVER
        self._poll.unregister(descriptor)
        self._run(task, is_ready)


def _noting(main: Task, ended: list[bool]) -> Task:
    try:
        yield from main
    finally:
        ended.append(True)


class Stream:
    """TCP connection that tasks read and write. Raises LateError and OSError."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self._received = b""

    def _more(self, until: float) -> Task:
        """Receive more. Return False at the end."""
        if not (yield self.socket.fileno(), READ, until):
            raise LateError
        chunk = self.socket.recv(LONGEST_LINE)
        self._received += chunk
        return bool(chunk)

    def line(self, until: float) -> Task:
        """Return the next line; what has arrived at the end. Raises ValueError for a line without an end."""
        while b"\n" not in self._received:
            if len(self._received) > LONGEST_LINE:
                raise ValueError("a line without an end")
            if not (yield from self._more(until)):
                break
        line, end, self._received = self._received.partition(b"\n")
        return line + end

    def exactly(self, size: int, until: float) -> Task:
        """Return the next `size` bytes. Raises ConnectionError if the connection ends before."""
        while len(self._received) < size:
            if not (yield from self._more(until)):
                raise ConnectionError("the connection ended")
        taken, self._received = self._received[:size], self._received[size:]
        return taken

    def unacknowledged(self) -> int:
        """Return the number of written bytes that the kernel of the peer has not acknowledged."""
        import fcntl  # noqa: PLC0415 -- only for a peer that is late
        import termios  # noqa: PLC0415

        (count,) = _COUNT.unpack(fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(_COUNT.size)))
        return int(count)

    def write(self, content: bytes, until: float) -> Task:
        """Write `content`."""
        while content:
            try:
                content = content[self.socket.send(content) :]
            except BlockingIOError:
                if not (yield self.socket.fileno(), WRITE, until):
                    raise LateError from None
