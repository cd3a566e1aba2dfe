"""Run programs of this node, and find them.

Without `subprocess` and `shutil`, whose imports take longer than most programs run.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence

ENGINE, OPENER = "bwrap", "squashfuse"
"""Programs of a container of ranks: one makes it, the other mounts an image that is a file."""

DEADLINE_S = 20.0
OBEYS_S = 1.0
"""Seconds for a program to end after SIGKILL."""

_CHUNK = 1 << 16


class ProgramEnd:
    """Result of a program. `status` is its exit code, or the negative number of the signal that ended it."""

    def __init__(self, status: int, output: str, errors: str) -> None:
        self.status = status
        self.output = output
        self.errors = errors


def ended(
    words: Sequence[str],
    *,
    stdin: str = "",
    joined: bool = False,
    deadline_s: float = DEADLINE_S,
    environment: Mapping[str, str] | None = None,
) -> ProgramEnd:
    """Run a program to its end, in the locale C. `joined`: its errors are part of its output, in order.

    `stdin` has at most the 64 KiB of a pipe. Raises FileNotFoundError or PermissionError if the program cannot be
    started, TimeoutError if it runs for longer than `deadline_s`; then it is killed.
    """
    until = time.monotonic() + deadline_s
    given, giving = os.pipe()
    output, writing = os.pipe()
    errors, complaining = (output, writing) if joined else os.pipe()
    streams = (given, writing, complaining)
    try:
        os.write(giving, stdin.encode())
        pid = os.posix_spawnp(
            words[0],
            list(words),
            dict(os.environ, LC_ALL="C", **(environment or {})),
            file_actions=[(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)],
            setsigdef=[signal.SIGPIPE],  # Python ignores it.
        )
    except OSError:
        for descriptor in {output, errors}:
            os.close(descriptor)
        raise
    finally:
        for descriptor in {given, giving, writing, complaining}:
            os.close(descriptor)
    read = {output: b"", errors: b""}
    try:
        _read(read, until)
        status = _status(pid, until)
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        # A program that waits in a driver obeys much later, if ever.
        with contextlib.suppress(TimeoutError):
            _status(pid, time.monotonic() + OBEYS_S)
        raise TimeoutError(f"no answer from {words[0]} within {deadline_s:g} s") from None
    finally:
        for descriptor in read:
            os.close(descriptor)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    texts = {descriptor: content.decode("utf-8", "replace") for descriptor, content in read.items()}
    return ProgramEnd(code, texts[output], "" if joined else texts[errors])


def _read(read: dict[int, bytes], until: float) -> None:
    """Read all descriptors to their ends. Raises TimeoutError at the monotonic time `until`."""
    waiting = select.poll()
    for descriptor in read:
        waiting.register(descriptor, select.POLLIN)
    left = len(read)
    while left:
        ready = waiting.poll(1000 * max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        for descriptor, _ in ready:
            chunk = os.read(descriptor, _CHUNK)
            read[descriptor] += chunk
            if not chunk:
                waiting.unregister(descriptor)
                left -= 1


def _status(pid: int, until: float) -> int:
    """Return the status of a child, which may live on without its output. Raises TimeoutError at `until`."""
    pause_s = 0.001
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() >= until:
            raise TimeoutError
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)


def path_of(program: str, search: str | None = None) -> str | None:
    """Return the path of a program in the directories `search`, else of PATH; None if it is not there.

    A name with a slash is a path itself.
    """
    directories = os.environ.get("PATH", os.defpath) if search is None else search
    for directory in [""] if "/" in program else directories.split(os.pathsep):
        path = os.path.join(directory, program)
        if os.path.exists(path) and os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None
