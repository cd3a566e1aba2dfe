"""Event loop of one thread: callbacks for readable descriptors and for signals; sockets with one message per line."""

from __future__ import annotations

import os
import selectors
import signal
import socket
from collections.abc import Callable, Iterable, Iterator

from pylaunch import protocol

LONGEST_S = 3600.0
"""Longest wait at a time: the kernel takes 24 days at most."""


class EventLoop:
    """Event loop over file descriptors."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._look: Callable[[], None] = _nothing

    def watch(self, source: socket.socket | int, callback: Callable[[], object]) -> None:
        """Call `callback` whenever `source` is readable."""
        self._selector.register(source, selectors.EVENT_READ, callback)

    def watch_writing(self, source: socket.socket | int, *, wanted: bool) -> None:
        """Also return from `wait` when `source` is writable, if `wanted`."""
        key = self._selector.get_key(source)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
        if key.events != events:
            self._selector.modify(source, events, key.data)

    def forget(self, source: socket.socket | int) -> None:
        """Stop watching `source`. Call this before closing it."""
        self._selector.unregister(source)

    def wait(self, timeout_s: float | None) -> None:
        """Wait for a ready descriptor, at most `timeout_s`, and run the callbacks of all."""
        timeout_s = None if timeout_s is None else min(timeout_s, LONGEST_S)
        # A signal that arrives at the deadline ends the wait without its descriptor: look again.
        for key, events in self._selector.select(timeout_s) or self._selector.select(0):
            # An earlier callback may have forgotten this descriptor, or watched another one of the same number.
            current = self._selector.get_map().get(key.fd)
            if events & selectors.EVENT_READ and current is not None and current.data is key.data:
                key.data()

    def watch_signals(self, signums: set[signal.Signals], callback: Callable[[set[int]], None]) -> None:
        """Call `callback` with the numbers of the signals that have arrived."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing)
        for signum in signums:
            signal.signal(signum, _ignore)

        def look() -> None:
            try:
                arrived = os.read(reading, 4096)
            except BlockingIOError:
                return  # `look_at_signals` had them.
            callback(set(arrived))

        self._look = look
        self.watch(reading, look)

    def look_at_signals(self) -> None:
        """Run the callback for signals that have arrived since the last wait."""
        self._look()


def _nothing() -> None:
    """Do nothing: no signals are watched."""


def _ignore(signum: int, frame: object) -> None:
    """Do nothing: the wakeup descriptor has the number of the signal already."""


class Part:
    """Part of a run: it begins before the release, is looked at in each turn of the event loop, and ends last."""

    def begin(self, loop: EventLoop) -> None:
        """Watch what this part waits for."""

    def tick(self, now: float) -> None:
        """Do what is due; `now` is monotonic."""

    def deadline(self) -> float | None:
        """Return the time at which `tick` must be called even if nothing happens."""
        return None

    def end(self) -> Iterable[str]:
        """End when no process of the run lives; return a phrase for each thing that is left."""
        return ()


class Lines:
    """Line-oriented connection with an outgoing buffer."""

    def __init__(self, connected: socket.socket, longest: int = protocol.MAX_LINE) -> None:
        connected.setblocking(False)
        self.socket = connected
        self.is_open = True
        self._longest = longest
        self._inbox = bytearray()
        self._outbox = bytearray()

    @property
    def waiting(self) -> int:
        """Bytes that wait to be sent."""
        return len(self._outbox)

    def receive(self) -> Iterator[bytes]:
        """Yield the whole lines that have arrived. Sets `is_open` to False if the other side closed the connection.

        Raises WireError for a line that is too long.
        """
        try:
            chunk = self.socket.recv(1 << 16)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.is_open = False
            return
        self._inbox += chunk
        *lines, rest = self._inbox.split(b"\n")
        if len(rest) > self._longest:
            raise protocol.WireError(f"line longer than {self._longest} bytes")
        self._inbox = rest
        yield from (bytes(line) for line in lines)

    def put(self, line: bytes) -> None:
        """Queue `line` for sending."""
        self._outbox += line

    def flush(self) -> int:
        """Send what the socket accepts now; return the number of bytes."""
        try:
            sent = self.socket.send(self._outbox) if self._outbox and self.is_open else 0
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.is_open = False
            return 0
        del self._outbox[:sent]
        return sent

    def close(self) -> None:
        self.is_open = False
        self.socket.close()
