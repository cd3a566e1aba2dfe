"""Continue in the background: fork, and wait at the terminal until the child has begun its run."""

import contextlib
import os
import select
import signal
from pathlib import Path

from pylaunch.base.dataclass import dataclass

STARTED = "started"
"""Line of a child whose run has started."""


@dataclass(frozen=True)
class Background:
    """The child of `fork_to_background`, as its parent sees it."""

    pid: int
    descriptor: int
    """A pipe on which the child sends a line for each run that it begins, and STARTED."""

    def heard(self, timeout_s: float) -> str | None:
        """Return what the child sent, "" when it ended, None after `timeout_s`."""
        ready, _, _ = select.select([self.descriptor], [], [], timeout_s)
        return os.read(self.descriptor, 64).decode() if ready else None

    def interrupt(self) -> None:
        """Pass Ctrl-C on to the child, which has no terminal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)

    def exit_code(self) -> int:
        """Wait for the child to end and return its exit code, as a shell does: 130 where SIGINT ended it."""
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code


@dataclass(frozen=True)
class Foreground:
    """The parent of `fork_to_background`, which waits at the terminal, as its child sees it."""

    descriptor: int

    def tell(self, line: str) -> None:
        """Send the id of a run that was begun, or STARTED, which lets the parent end."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.descriptor, f"{line}\n".encode())


def fork_to_background(log: Path) -> Background | Foreground:
    """Fork; parent and child each get a handle to the other, and both return from here.

    The child has a session of its own, no terminal, and `log` for stdout and stderr.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Background(pid, reading)
    os.close(reading)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    return Foreground(writing)
