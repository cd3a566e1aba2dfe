"""Non-blocking socket that carries one message per line."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from pylaunch import protocol


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
