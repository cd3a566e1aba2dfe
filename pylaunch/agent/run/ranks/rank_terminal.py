"""Pseudo-terminal of the rank that `start --debug-rank` names.

The rank has one end as its controlling terminal, this process the other: it appends what the rank writes to the log of
the rank, sends it to the controller, and writes what the person types. Ctrl-C is a byte like others: the kernel makes
SIGINT of it, for the rank alone. This process keeps the end of the rank open as well, so that the terminal outlives
each program in it, until the rank has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import Callable

from pylaunch import protocol
from pylaunch.agent.logs.masking import Mask, MaskedStream
from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.event_loop import EventLoop
from pylaunch.agent.shared.record import note
from pylaunch.protocol.terminal import ENCODING, MOST_WRITTEN

MOST_WAITING = 64 << 10
"""Bytes of input that wait for the rank to read; more are dropped."""

MOST_LEFT = 256 << 10
"""Bytes that are read after the end of the rank: more than the buffer of the kernel, and a child may write on."""


class RankTerminal:
    """Terminal of `rank`, whose output is appended to the first of its `logs`.

    Raises OSError where a node has no pseudo-terminals.
    """

    def __init__(self, rank: int, logs: tuple[str, str], mask: Mask) -> None:
        self.rank = rank
        for path in logs:
            rank_files.append(path, b"")
        self._log = logs[0]
        self._masked = MaskedStream(mask)
        self._ours, self._theirs = os.openpty()
        self.device = os.ttyname(self._theirs)
        """Path that the rank opens."""

        os.set_blocking(self._ours, False)
        self._loop: EventLoop | None = None
        """None before the run begins and after the end."""

        self._is_read = False
        self._send: Callable[[protocol.TerminalOutput], None] | None = None
        self._typed = bytearray()
        self._held = b""
        """A carriage return at the end of the last output, which the log omits if a line feed follows."""

    def begin(self, loop: EventLoop) -> None:
        """Read output as it arrives."""
        self._loop = loop
        self._read(wanted=True)

    def take(self, message: protocol.TerminalInput, send: Callable[[protocol.TerminalOutput], None]) -> None:
        """Write input, and send output with `send` from now on."""
        self._send = send
        if self._loop is not None:
            size = struct.pack("HHHH", message.rows, message.columns, 0, 0)
            if fcntl.ioctl(self._ours, termios.TIOCGWINSZ, bytes(len(size))) != size:
                fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)
            self._typed += message.data.encode(ENCODING)
            del self._typed[MOST_WAITING:]
            self.advance(has_room=True)

    def leave(self) -> None:
        """Send output to nobody: the controller has gone."""
        self._send = None
        self._read(wanted=True)

    def advance(self, *, has_room: bool) -> None:
        """Write as much of the waiting input as the terminal takes. Read output only if the controller `has_room`;
        else the rank waits once the buffer of the kernel is full."""
        if self._loop is not None and self._typed:
            with contextlib.suppress(BlockingIOError):
                del self._typed[: os.write(self._ours, self._typed)]
        self._read(wanted=has_room)

    def end(self) -> None:
        """Read the rest of the output and close the terminal: the rank has ended, or never starts."""
        if self._loop is None:
            return
        self._read(wanted=False)
        for _ in range(MOST_LEFT // MOST_WRITTEN):
            if not self._receive():
                break
        self._append(b"")
        self._show(self._masked.masked(b"", is_last=True))
        self._loop = None
        os.close(self._ours)
        os.close(self._theirs)

    def _read(self, *, wanted: bool) -> None:
        if self._loop is None:
            return
        if wanted != self._is_read:
            self._is_read = wanted
            if wanted:
                self._loop.watch(self._ours, self._receive)
            else:
                self._loop.forget(self._ours)
        if wanted:
            self._loop.watch_writing(self._ours, wanted=bool(self._typed))

    def _receive(self) -> bool:
        """Read output once; return whether there was any."""
        try:
            data = os.read(self._ours, MOST_WRITTEN)
        except BlockingIOError:
            return False
        self._append(data)
        self._show(self._masked.masked(data))
        return bool(data)

    def _show(self, text: bytes) -> None:
        if self._send is not None and text:
            self._send(protocol.TerminalOutput(self.rank, text.decode(ENCODING)))

    def _append(self, data: bytes) -> None:
        """Append `data` to the log, with lines that end as in other logs; b"" is the end of the output."""
        text = self._held + data
        self._held = b"\r" if data and text.endswith(b"\r") else b""
        lines = text[: len(text) - len(self._held)].replace(b"\r\n", b"\n")
        try:
            rank_files.append(self._log, lines)
        except OSError as error:
            note(f"{self._log}: output of the terminal is lost: {error.strerror}")
