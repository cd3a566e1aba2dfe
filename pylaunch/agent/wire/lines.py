"""A non-blocking socket that carries one message a line."""

from __future__ import annotations

import socket
from typing import Iterator

from pylaunch.agent import wire


class Lines:
    """A non-blocking socket that speaks in lines."""

    def __init__(self, connected: socket.socket, longest: int = wire.MAX_LINE) -> None:
        connected.setblocking(False)
        self.socket = connected
        self.is_open = True
        self._longest = longest
        self._inbox = bytearray()
        self._outbox = bytearray()

    @property
    def waiting(self) -> int:
        """Bytes that the other side has not taken yet."""
        return len(self._outbox)

    def receive(self) -> Iterator[bytes]:
        """The whole lines that have arrived. Afterwards `is_open` is False if the other side has gone."""
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
            raise wire.WireError(f"a line longer than {self._longest} bytes")
        self._inbox = rest
        yield from (bytes(line) for line in lines)

    def put(self, line: bytes) -> None:
        """Send `line` when there is room."""
        self._outbox += line

    def flush(self) -> int:
        """Send what the other side takes now; how many bytes it took."""
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
