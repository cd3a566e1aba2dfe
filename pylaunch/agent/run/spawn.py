"""Start a rank or a launcher that cannot outlive its parent and inherits only what it is given.

A process can wait at a gate, a pipe, with only the exec left to do. It continues when it reads a token from the gate,
and exits when the gate closes, so that none remains when its parent dies. The token carries the rendezvous port, which
replaces PORT_ENTRY in arguments and environment and may not be known earlier.
The process reports its progress on the descriptor that `spawn` returns: a byte at the gate, then the time of its exec.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence

from pylaunch.agent.shared import rank_files
from pylaunch.base.dataclass import dataclass

PORT_ENTRY = "@port@"
"""Placeholder of the rendezvous port in launcher arguments and environment values, until Release carries it."""

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
NOT_FOUND = 127
NOT_RUNNABLE = 126
_TIME = struct.Struct("d")
_READY = b"r"
_TOKEN = struct.Struct("I")
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies, so that all of them can be found."""
    _call_prctl(PR_SET_CHILD_SUBREAPER, 1)


def signal_me_when_parent_dies(signum: int) -> None:
    """Let the kernel send `signum` when the parent thread ends. Survives exec."""
    _call_prctl(PR_SET_PDEATHSIG, signum)


def _call_prctl(option: int, value: int) -> None:
    if _prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


@dataclass(frozen=True)
class Exec:
    """Program that a process becomes, and where."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    join: Callable[[], None] | None = None
    """Makes the process one of a container, where `argv` and `cwd` are; raises OSError. None: there is no container."""

    needs: Sequence[str] = ()
    """Paths that the program needs in the container."""


def spawn(what: Exec, outputs: tuple[str, str], gate: tuple[int, int] | None = None) -> tuple[int, int]:
    """Fork a process that executes `what`, after `gate` if there is one. Returns its id and a descriptor to wait on.

    `outputs` are the files to which stdout and stderr are appended. `gate` is both ends of a pipe. For a program that
    cannot run, the process writes the reason to stderr and exits with 127 or 126.
    """
    parent = os.getpid()
    reading, writing = os.pipe()

    def wait_at_gate() -> int:
        if os.getppid() != parent:
            os._exit(NOT_RUNNABLE)
        os.write(writing, _READY)
        port = 0
        if gate is not None:
            os.close(gate[1])
            token = os.read(gate[0], _TOKEN.size)
            if len(token) < _TOKEN.size:
                os._exit(NOT_RUNNABLE)
            port = _TOKEN.unpack(token)[0]
        os.write(writing, _TIME.pack(time.time()))
        return port

    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _become(what, outputs, wait_at_gate)
    os.close(writing)
    return pid, reading


def tokens(count: int, port: int) -> bytes:
    """Return the bytes that release `count` processes from a gate. A pipe reads and writes this little atomically."""
    return _TOKEN.pack(port) * count


def with_port(text: str, port: int) -> str:
    """Replace PORT_ENTRY in `text` with `port`, unless that is 0."""
    return text.replace(PORT_ENTRY, str(port)) if port else text


def reached_gate(reading: int) -> bool:
    """Wait until the process of `spawn`'s descriptor is ready for its exec; return False if it ended before."""
    return os.read(reading, 1) == _READY


def start_time(reading: int) -> float | None:
    """Wait for the exec of the process at the gate and return its time, or None if it ended before."""
    try:
        answer = os.read(reading, _TIME.size)
    finally:
        os.close(reading)
    return _TIME.unpack(answer)[0] if len(answer) == _TIME.size else None


def _become(what: Exec, outputs: tuple[str, str], wait_at_gate: Callable[[], int]) -> None:
    argv, env, code = what.argv, what.env, NOT_RUNNABLE
    try:
        signal_me_when_parent_dies(signal.SIGKILL)
        os.setsid()
        os.umask(0o022)
        _redirect(outputs)
        _reset_signals()
        if what.join is not None:
            what.join()
        os.chdir(what.cwd)
        if what.join is not None:
            _look_for(what)
        port = wait_at_gate()
        if port:
            argv = [with_port(word, port) for word in argv]
            env = {name: with_port(value, port) for name, value in env.items()}
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUNNABLE
        why = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
        os.write(2, f"pylaunch: cannot run {argv[0]} in {what.cwd}: {why}\n".encode("utf-8", "surrogateescape"))
    finally:
        os._exit(code)


def _look_for(what: Exec) -> None:
    """Raise OSError for a program or a path that is not in the container: its exec would fail after the release."""
    program = what.argv[0]
    directories = [""] if "/" in program else os.get_exec_path(what.env)
    found = (os.path.join(each, program) for each in directories)
    if not any(os.path.isfile(path) and os.access(path, os.X_OK) for path in found):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    for path in what.needs:
        os.stat(path)


def _redirect(outputs: tuple[str, str]) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for target, path in enumerate(outputs, 1):
        os.dup2(rank_files.open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), target)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for signum in signal.valid_signals():
        if signum not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def end_like(status: int) -> None:
    """End this process with the exit code or the signal in `status`, of waitpid."""
    if os.WIFSIGNALED(status):
        signum = os.WTERMSIG(status)
        _no_core()
        if signum not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(signum, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signum])
        os.kill(os.getpid(), signum)
    sys.stdout.flush()
    os._exit(os.WEXITSTATUS(status))


def _no_core() -> None:
    import resource  # noqa: PLC0415 -- the start of a rank must not pay for it

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
