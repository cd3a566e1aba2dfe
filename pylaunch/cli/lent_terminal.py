"""The terminal of this process, which `start --debug-rank` lends to a rank."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty

from pylaunch.errors import UsageError
from pylaunch.terminal import console

STOP_KEY = b"\x1d"
"""Ctrl-], the escape key of telnet and of systemd-nspawn, which neither pdb nor a shell uses."""

_STDIN = 0
_RESET = "\x1b[?2004l\x1b[?25h"
"""No bracketed paste, and a cursor: a rank that is killed at a prompt leaves both as they were there."""


def lent_terminal(rank: int | None, *, detach: bool, as_json: bool) -> "LentTerminal | None":
    """Return the terminal for `rank`; None if no rank gets it.

    Raises UsageError where no person could use it: no terminal, a background job, --detach or --json.
    """
    if rank is None:
        return None
    asked = f"--debug-rank {rank}"
    if detach:
        raise UsageError(f"{asked} and --detach: a run in the background has no terminal", hint="omit --detach")
    if as_json:
        raise UsageError(f"{asked} and --json: the output of rank {rank} takes stdout", hint="omit --json")
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        if not console.is_terminal(stream):
            hint = f"without {asked}, a breakpoint() or input() of a rank fails at once: it reads /dev/null"
            raise UsageError(f"{asked}: {name} is not a terminal", hint=hint)
    if os.tcgetpgrp(_STDIN) != os.getpgrp():
        raise UsageError(f"{asked}: pylaunch is a background job of the shell", hint="start it in the foreground")
    return LentTerminal()


class LentTerminal:
    """A `runs.follow.debug_session.PersonTerminal`. STOP_KEY interrupts this process, as Ctrl-C otherwise does."""

    def __init__(self) -> None:
        self._settings: list[int | list[bytes | int]] | None = None
        """Settings before it was lent; None while it is not."""

    def lend(self) -> None:
        """Return each key from `typed` as it is."""
        if self._settings is None:
            self._settings = termios.tcgetattr(_STDIN)
            tty.setraw(_STDIN, termios.TCSADRAIN)
            console.become_raw(True)

    def take_back(self) -> None:
        """Restore the settings."""
        if self._settings is not None:
            settings, self._settings = self._settings, None
            with contextlib.suppress(termios.error):  # The terminal may be gone.
                termios.tcsetattr(_STDIN, termios.TCSANOW, settings)
            console.become_raw(False)
            if console.is_drawable():
                console.write(sys.stderr, _RESET)

    def size(self) -> tuple[int, int]:
        """Return the rows and columns."""
        size = console.size_of(sys.stdout)
        return size.lines, size.columns

    def show(self, data: bytes) -> None:
        """Write `data` as it is."""
        console.relay(data)

    async def typed(self, most: int, within_s: float) -> bytes:
        """Return at most `most` bytes that were typed within `within_s` seconds, up to STOP_KEY.

        Raises EOFError when the terminal is gone.
        """
        loop = asyncio.get_running_loop()
        is_readable = asyncio.Event()
        loop.add_reader(_STDIN, is_readable.set)
        try:
            async with asyncio.timeout(within_s):
                await is_readable.wait()
        except TimeoutError:
            return b""
        finally:
            loop.remove_reader(_STDIN)
        try:
            data = os.read(_STDIN, most)
        except OSError:
            data = b""
        if not data:
            raise EOFError
        before, stop, _ = data.partition(STOP_KEY)
        if stop:
            self.take_back()
            signal.raise_signal(signal.SIGINT)
        return before
