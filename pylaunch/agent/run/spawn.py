"""Start a rank or a launcher so that it cannot outlive its parent and inherits nothing but what it is given.

A process may be made to stand at a gate: everything slow is done, only the exec is left. It goes when it reads a pass
from the gate, and ends when the gate closes, so that nothing is left standing when its parent dies. A pass carries a
number, which takes the place of PORT_ENTRY in its words and environment: it was not known when it came to the gate.
On a descriptor that `spawn` returns it says how far it is: a byte when it has come, then the time of its exec.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import time

from pylaunch.agent.shared import rank_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

PORT_ENTRY = "@port@"
"""Stands for the rendezvous port in launcher words and in values of the environment, until Release tells it."""

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
NOT_FOUND = 127
NOT_RUNNABLE = 126
_TIME = struct.Struct("d")
_READY = b"r"
_PASS = struct.Struct("I")
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies, so that none gets away."""
    _call_prctl(PR_SET_CHILD_SUBREAPER, 1)


def signal_me_when_parent_dies(signum: int) -> None:
    """Ask the kernel for `signum` when the thread that forked us ends. Survives exec."""
    _call_prctl(PR_SET_PDEATHSIG, signum)


def _call_prctl(option: int, value: int) -> None:
    if _prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def spawn(
    argv: list[str], env: dict[str, str], cwd: str, outputs: tuple[str, str], gate: tuple[int, int] | None = None
) -> tuple[int, int]:
    """Fork a process that becomes `argv`, after the gate if there is one: its id, and a descriptor to wait on.

    `outputs` are the files that stdout and stderr are appended to, `gate` both ends of a pipe. A program that cannot be
    run ends with 127 or 126 and says why on its stderr.
    """
    parent = os.getpid()
    reading, writing = os.pipe()

    def wait_at_gate() -> int:
        if os.getppid() != parent:
            os._exit(NOT_RUNNABLE)
        os.write(writing, _READY)
        number = 0
        if gate is not None:
            os.close(gate[1])
            shown = os.read(gate[0], _PASS.size)
            if len(shown) < _PASS.size:
                os._exit(NOT_RUNNABLE)
            number = _PASS.unpack(shown)[0]
        os.write(writing, _TIME.pack(time.time()))
        return number

    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _become(argv, env, cwd, outputs, wait_at_gate)
    os.close(writing)
    return pid, reading


def passes(count: int, number: int) -> bytes:
    """What to write to a gate so that `count` processes go. A pipe takes so little at once, and gives it whole."""
    return _PASS.pack(number) * count


def with_number(text: str, number: int) -> str:
    """`text` with the number of the pass in its place."""
    return text.replace(PORT_ENTRY, str(number)) if number else text


def has_come_to_gate(reading: int) -> bool:
    """Wait until the process behind `spawn`'s descriptor has only the exec before it; False if it ended on the way."""
    return os.read(reading, 1) == _READY


def start_time(reading: int) -> float | None:
    """When the process that has come to the gate went to exec; None if it ended before. Waits for it to do so."""
    try:
        answer = os.read(reading, _TIME.size)
    finally:
        os.close(reading)
    return _TIME.unpack(answer)[0] if len(answer) == _TIME.size else None


def _become(
    argv: list[str], env: dict[str, str], cwd: str, outputs: tuple[str, str], wait_at_gate: Callable[[], int]
) -> None:
    code = NOT_RUNNABLE
    try:
        signal_me_when_parent_dies(signal.SIGKILL)
        os.setsid()
        os.umask(0o022)
        _redirect(outputs)
        _reset_signals()
        os.chdir(cwd)
        number = wait_at_gate()
        if number:
            argv = [with_number(word, number) for word in argv]
            env = {name: with_number(value, number) for name, value in env.items()}
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUNNABLE
        os.write(2, f"pylaunch: cannot run {argv[0]} in {cwd}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
    finally:
        os._exit(code)


def _redirect(outputs: tuple[str, str]) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for target, path in ((1, outputs[0]), (2, outputs[1])):
        os.dup2(rank_files.open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), target)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for signum in signal.valid_signals():
        if signum not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def end_like(status: int) -> None:
    """End this process as `status` (of waitpid) says another one did: the same exit code, or the same signal."""
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
