"""Ranks as /proc and their log files show them: states of processes, system calls, bytes moved, last output.

Nothing here needs an answer of a rank.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pylaunch import protocol
from pylaunch.agent.evidence import rank_report, symptoms
from pylaunch.agent.in_rank.questions import THREAD
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.logs.tail import last_lines
from pylaunch.agent.shared.text import link_of, names_in, stat_of, text_of, text_or_none, waits_in
from pylaunch.base.layout import RunDirectory

STOPPED = "Tt"
"""Letters of a process that a signal or a debugger has stopped."""

SHELLS = {"sh", "bash", "dash", "ash", "ksh", "zsh", "timeout", "nice", "numactl", "taskset", "env", "setsid"}
"""Programs that run one other program and wait for it."""

MOST = 200
"""Processes of one rank that are read."""


def states(
    pids: Mapping[int, int], streams: Mapping[str, str], directory: RunDirectory, mask: Mask
) -> list[protocol.RankState]:
    """Return the state of each rank in `pids` (rank → process id); `streams`: stream name → log file."""
    now = time.time()
    found = []
    for rank, pid in sorted(pids.items()):
        lines = last_lines(streams[f"{rank}.err"], streams[f"{rank}.out"], mask=mask)
        error = rank_report.error(directory, rank, mask)
        if not error and symptoms.ends_with_exception(lines):
            error = symptoms.last_exception(lines)
        symptom = symptoms.symptom(1, None, error, lines)
        step = rank_report.last_step(directory, rank)
        found.append(protocol.RankState(rank, state(pid), silent_s(rank, streams, now), step, error, symptom))
    return found


def state(pid: int) -> str:
    """Return the state letter of `pid`, or of a stopped process that does its work; "" if it is gone."""
    stopped = stopped_on_path(worker_of(pid), pid)
    return letter(pid if stopped is None else stopped)


def worker_of(pid: int) -> int:
    """Return the process that does the work of `pid`: of a shell with one child, that child."""
    for _ in range(8):
        try:
            name = text_of(f"/proc/{pid}/comm").strip()
            children = text_of(f"/proc/{pid}/task/{pid}/children").split()
        except OSError:
            return pid
        if name not in SHELLS or len(children) != 1:
            return pid
        pid = int(children[0])
    return pid


def stopped_on_path(pid: int, first: int) -> int | None:
    """Return the first stopped process from `pid` up to its ancestor `first`. Other descendants, such as workers of a
    DataLoader, may be stopped while the rank runs."""
    return next((each for each in _path(pid, first) if letter(each) in tuple(STOPPED)), None)


def letter(pid: int) -> str:
    """Return the state letter of a process or thread; "" if it is gone."""
    return (stat_of(pid) or [""])[0]


def family(pid: int) -> Iterator[int]:
    """Yield `pid` and its descendants, at most MOST."""
    waiting, seen = [pid], 0
    while waiting and seen < MOST:
        each = waiting.pop()
        seen += 1
        yield each
        try:
            threads = os.listdir(f"/proc/{each}/task")
            for thread in threads[:MOST]:
                waiting += map(int, text_of(f"/proc/{each}/task/{thread}/children").split())
        except OSError:
            continue


def _path(pid: int, first: int) -> Iterator[int]:
    """Yield `pid` and its ancestors, at most MOST, to `first` if that is one."""
    for _ in range(MOST):
        yield pid
        fields = stat_of(pid)
        if pid == first or len(fields) < 2:
            break
        pid = int(fields[1])


def silent_s(rank: int, streams: Mapping[str, str], now: float) -> float | None:
    """Return the seconds since the last output of `rank`; None if it wrote none."""
    at = written_at(rank, streams)
    return max(0.0, now - at) if at else None


def are_failing(ranks: Iterable[int], streams: Mapping[str, str]) -> bool:
    """Return True if the last line of one of `ranks` is an exception."""
    return any(symptoms.ends_with_exception(last_lines(streams[f"{rank}.err"])) for rank in ranks)


def written_at(rank: int, streams: Mapping[str, str]) -> float:
    """Return the time of the last output of `rank`; 0 if it wrote none."""
    written: dict[str, float] = {}
    for end in ("out", "err"):
        try:
            status = os.lstat(streams[f"{rank}.{end}"])
        except OSError:
            continue
        if status.st_size:
            written[end] = status.st_mtime
    return max(written.values(), default=0.0)


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


def view(rank: int, pid: int, answering: int | None = None) -> protocol.RankView:
    """Return what the kernel shows of `rank`, whose first process is `pid`; `answering` is its process to show.

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
    return protocol.RankView(
        rank, "", time.time(), 0.0, shown, letter, round(cpu_s, 2), "", wchan=waits_in(shown), syscall=syscall(shown),
        main_cpu_s=main_cpu_s(shown), main_switches=_status(shown, "voluntary_ctxt_switches:", 10),
    )  # fmt: skip


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


READ_S = 0.2
"""Time for all ranks, in which the agent does nothing else. Ranks beyond it are left out."""

MOST_IO_THREADS = 4000
"""Threads of one process that are read."""

COUNTERS = ("rchar", "wchar", "read_bytes", "write_bytes")


def moved_bytes(pids: Mapping[int, int]) -> dict[int, int]:
    """Return the bytes of each rank in `pids` (rank → process id) since it started, of the processes that are alive."""
    until = time.monotonic() + READ_S
    found = {}
    for rank, pid in pids.items():
        moved = sum(_of_process(each) for each in family(pid))
        if time.monotonic() >= until:
            break
        found[rank] = moved
    return found


def _of_process(pid: int) -> int:
    tasks = [f"/proc/{pid}/task/{thread}" for thread in names_in(f"/proc/{pid}/task", MOST_IO_THREADS)]
    return _io(f"/proc/{pid}") - sum(_io(task) for task in tasks if text_or_none(f"{task}/comm") == THREAD)


def _io(directory: str) -> int:
    try:
        fields = dict(line.split(": ", 1) for line in text_of(f"{directory}/io").splitlines())
        return sum(int(fields[name]) for name in COUNTERS)
    except (OSError, ValueError, KeyError):
        return 0
