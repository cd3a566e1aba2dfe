"""State of a rank's processes in /proc, which needs no answer from the rank."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pylaunch.agent.evidence.ranks.rank_states import family, stopped_on_path, worker_of
from pylaunch.agent.shared.text import link_of, stat_of, text_of, text_or_none, waits_in
from pylaunch.base.dataclass import dataclass

_TICKS = os.sysconf("SC_CLK_TCK")
_UNKNOWN = ("", "0", "running", "-1")
_X86 = {
    0: "read", 1: "write", 7: "poll", 9: "mmap", 16: "ioctl", 20: "writev", 23: "select", 35: "nanosleep",
    42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg", 61: "wait4", 73: "flock",
    74: "fsync", 75: "fdatasync", 202: "futex", 230: "clock_nanosleep", 232: "epoll_wait", 247: "waitid",
    257: "openat", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait", 288: "accept4",
}  # fmt: skip
_ARM = {
    22: "epoll_pwait", 29: "ioctl", 32: "flock", 56: "openat", 63: "read", 64: "write", 66: "writev", 72: "pselect6",
    73: "ppoll", 82: "fsync", 83: "fdatasync", 95: "waitid", 98: "futex", 101: "nanosleep", 115: "clock_nanosleep",
    202: "accept", 203: "connect", 206: "sendto", 207: "recvfrom", 211: "sendmsg", 212: "recvmsg", 222: "mmap",
    242: "accept4", 260: "wait4",
}  # fmt: skip
_SYSCALLS = {"x86_64": _X86, "aarch64": _ARM}.get(os.uname().machine, {})
"""Names of the system calls that ranks wait in; the table of an architecture is in its unistd.h."""


@dataclass(frozen=True)
class ProcessView:
    """One process of a rank, and the processor time of all of them."""

    pid: int
    state: str
    """State letter; "" if it is gone."""

    cpu_s: float
    wchan: str
    syscall: str
    main_cpu_s: float | None = None
    """Processor time of the main thread of the process; None if the kernel does not report it."""

    main_switches: int | None = None
    """Number of times that its main thread has waited in the kernel; None if unknown."""


def view(pid: int, answering: int | None = None) -> ProcessView:
    """Return the state of the rank whose first process is `pid`; `answering` is the one of its processes to show.

    If that process, or one that waits for it, is stopped, the stopped one is shown.
    """
    processes = list(family(pid))
    shown = answering if answering in processes and answering is not None else worker_of(pid)
    stopped = stopped_on_path(shown, pid)
    shown = shown if stopped is None else stopped
    letter, cpu_s = "", 0.0
    for each in processes:
        fields = stat_of(each)
        if not fields:
            continue
        cpu_s += seconds(fields)
        if each == shown:
            letter = fields[0]
    return ProcessView(
        shown, letter, round(cpu_s, 2), waits_in(shown), syscall(shown), main_cpu_s(shown), _switches(shown)
    )


def main_cpu_s(pid: int) -> float | None:
    """Return the processor time of the main thread of `pid` (proc(5), schedstat: nanoseconds); None if unknown."""
    try:
        return int(text_of(f"/proc/{pid}/task/{pid}/schedstat").split()[0]) / 1e9
    except (OSError, IndexError, ValueError):
        return None


def catches(pid: int, signum: int) -> bool:
    """Return whether `pid` has a handler for `signum`, whose default action may be to end it."""
    return _is_in_mask(pid, "SigCgt:", signum)


def blocks(pid: int, signum: int) -> bool:
    """Return whether the main thread of `pid` blocks `signum`, as it does while it runs the handler in C."""
    return _is_in_mask(pid, "SigBlk:", signum)


def _is_in_mask(pid: int, name: str, signum: int) -> bool:
    return bool((_status(pid, name, 16) or 0) >> (signum - 1) & 1)


def _switches(pid: int) -> int | None:
    return _status(pid, "voluntary_ctxt_switches:", 10)


def _status(pid: int, name: str, base: int) -> int | None:
    """Return a number of /proc/PID/status, which is of the main thread; None if it cannot be read."""
    try:
        lines = text_of(f"/proc/{pid}/status").splitlines()
        return next(int(line.split()[1], base) for line in lines if line.startswith(name))
    except (OSError, StopIteration, IndexError, ValueError):
        return None


def is_python(pid: int) -> bool:
    """Return whether `pid` executes a Python interpreter; False if that cannot be read."""
    return "python" in os.path.basename(link_of(f"/proc/{pid}/exe"))


def seconds(fields: Sequence[str]) -> float:
    """Return the processor time in the fields of /proc/PID/stat after the name."""
    return (int(fields[11]) + int(fields[12])) / _TICKS


def syscall(pid: int) -> str:
    """Return the system call of a process or thread, by name or number; "" if it runs or that cannot be read."""
    number = (text_or_none(f"/proc/{pid}/syscall") or "").partition(" ")[0]
    if number in _UNKNOWN or not number.isdigit():
        return ""
    return _SYSCALLS.get(int(number), number)
