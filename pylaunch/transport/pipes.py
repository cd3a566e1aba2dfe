"""Read the pipes of a child process until the process ends, even if others keep the pipes open; write to a running one.

A process may leave a background process (the shared connection of ssh) that keeps its pipes open for minutes. Once the
child has ended, what the pipes already hold is read, and nothing more is awaited.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import IO, Any

from pylaunch.base.dataclass import dataclass

QUIET_S = 0.5
"""Seconds of silence, after the end of a process, until pipes that others keep open count as read."""

POLL_S = 0.1
"""Interval of polling a process where the kernel has no pidfd (before Linux 5.3)."""

CHUNK = 1 << 16
MOST = 64 << 20
"""Bytes that a process may print: far more than any answer, and little enough to keep in memory."""


class FloodError(Exception):
    """A process printed more than MOST bytes."""


def end_descriptor(pid: int) -> int | None:
    """Return a descriptor that is readable once the child `pid` has ended; None where the kernel has no pidfd."""
    with contextlib.suppress(OSError, AttributeError):  # Python on macOS has no pidfd_open.
        return os.pidfd_open(pid)
    return None


class _Writing(asyncio.BaseProtocol):
    """Flow control of the pipe to a process: `room` waits while the pipe is full."""

    def __init__(self) -> None:
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.is_lost = False

    def pause_writing(self) -> None:
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self._has_room.set()

    async def room(self) -> None:
        await self._has_room.wait()


@dataclass(frozen=True)
class Talk:
    """The three pipes of a process, on the event loop."""

    stdin: asyncio.WriteTransport
    writing: _Writing
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    readings: tuple[asyncio.ReadTransport, asyncio.ReadTransport]

    async def send(self, line: bytes) -> None:
        """Write `line` and wait until the pipe has room again. Raises ConnectionError when the reader has closed it."""
        if not self.stdin.is_closing():
            self.stdin.write(line)
            await self.writing.room()
        if self.stdin.is_closing():
            raise ConnectionError("its stdin is closed")

    def close(self) -> None:
        """Close this end of all pipes."""
        if not self.writing.is_lost:
            self.writing.is_lost = True
            self.stdin.abort()
        for transport in self.readings:
            transport.close()


async def talk(stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes], *, longest: int) -> Talk:
    """Put the pipes of a process on the event loop; lines may be `longest` bytes."""
    to_it, writing = await asyncio.get_running_loop().connect_write_pipe(_Writing, stdin)
    from_stdout, stdout_transport = await _reader(stdout, longest)
    from_stderr, stderr_transport = await _reader(stderr, longest)
    return Talk(to_it, writing, from_stdout, from_stderr, (stdout_transport, stderr_transport))


async def _reader(pipe: IO[bytes], longest: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader(limit=longest)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    return reader, transport


async def end_of(pid: int, has_ended: Callable[[], bool]) -> None:
    """Wait until the child `pid` has ended, without regard to its pipes."""
    descriptor = end_descriptor(pid)
    if descriptor is None:
        while not has_ended():
            await asyncio.sleep(POLL_S)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        while not has_ended():
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def rest_of(reader: asyncio.StreamReader, ended: asyncio.Future[None]) -> bytes:
    """Return the data of `reader` until it is closed, or until its process has `ended` and QUIET_S passed in silence.

    Raises FloodError.
    """
    rest = bytearray()
    while True:
        reading = asyncio.ensure_future(reader.read(CHUNK))
        try:
            either: tuple[asyncio.Future[Any], ...] = (reading, ended)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({reading}, timeout=QUIET_S)
        finally:
            is_read = not reading.cancel()
        if not is_read or not (chunk := reading.result()):
            return bytes(rest)
        rest += chunk
        if len(rest) > MOST:
            raise FloodError
