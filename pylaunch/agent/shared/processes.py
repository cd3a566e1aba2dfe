"""Processes in /proc, found by the mark of their run and signalled without ever hitting a reused process id.

Every process of a run has PYLAUNCH_RUN and PYLAUNCH_ROOT in its environment. Programs that overwrite their own
environment (setproctitle does) are found by descent while the supervisor, which adopts all orphans, lives, and by the
log of a rank to which they write.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator

from pylaunch.agent.shared.text import link_of, stat_of, text_or_none
from pylaunch.base.dataclass import dataclass

RUN_MARK = "PYLAUNCH_RUN"
ROOT_MARK = "PYLAUNCH_ROOT"
RANK_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR")
"""Variables that env:// of torch.distributed requires. A single one may be an export in a login shell."""

_ROOT_MARK = ROOT_MARK.encode()
_LOG = re.compile(r"/runs/([^/]+)/logs/")
POLL_S = 0.02
SURVIVES_S = 3.0
"""Time after SIGKILL after which a process counts as uninterruptible in the kernel."""


@dataclass(frozen=True)
class Process:
    """Process; `pid` and `started` together identify it."""

    pid: int
    parent: int
    started: int
    """In clock ticks since boot."""

    state: str
    command: str

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.command[:200]})"


def mine() -> list[Process]:
    """Return the processes of our user, without this one."""
    uid, own = os.getuid(), os.getpid()
    return [process for process, _ in owned_by(lambda owner: owner == uid) if process.pid != own]


def ancestors_of_others() -> set[int]:
    """Return the ids of all processes that have a descendant of another user."""
    uid = os.getuid()
    owned = [(process, owner) for process, owner in owned_by(lambda owner: True) if process.state != "Z"]
    parents = {process.pid: process.parent for process, _ in owned}
    found: set[int] = set()
    for process, owner in owned:
        pid = process.parent if owner != uid else 0
        while pid in parents and pid not in found:
            found.add(pid)
            pid = parents[pid]
    return found


def owned_by(is_wanted: Callable[[int], bool]) -> Iterator[tuple[Process, int]]:
    """Yield the processes whose user id satisfies `is_wanted`, with that user id."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            owner = os.stat("/proc/" + name).st_uid
            if is_wanted(owner):
                yield read(int(name)), owner
        except (FileNotFoundError, ProcessLookupError):
            continue


def read(pid: int) -> Process:
    """Return the process `pid`. Raises FileNotFoundError or ProcessLookupError if it is gone."""
    with open(f"/proc/{pid}/stat", "rb") as source:
        name, _, rest = source.read().partition(b"(")[2].rpartition(b")")
    fields = rest.split()
    with open(f"/proc/{pid}/cmdline", "rb") as source:
        words = source.read().rstrip(b"\0").replace(b"\0", b" ") or b"[" + name + b"]"
    state = fields[0].decode()
    return Process(pid, int(fields[1]), int(fields[19]), state, words.decode("utf-8", "replace"))


def start_time(process: Process) -> float:
    """Return the start time of `process` in seconds since the epoch."""
    with open("/proc/stat", encoding="ascii") as source:
        boot = next(int(line.split()[1]) for line in source if line.startswith("btime "))
    return boot + process.started / os.sysconf("SC_CLK_TCK")


def boot_id() -> str:
    """Return the boot id of this node; "" if it cannot be read."""
    return text_or_none("/proc/sys/kernel/random/boot_id") or ""


def environment(pid: int) -> dict[str, str]:
    """Return the environment that `pid` was started with; {} if it cannot be read or the process is gone."""
    return _variables(_environ(pid))


def _environ(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as source:
            return source.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def has_variables(pid: int, *names: str) -> bool:
    """Return True if `pid` was started with all of these environment variables, which may be empty."""
    environ = b"\0" + _environ(pid)
    return all(b"\0" + os.fsencode(name) + b"=" in environ for name in names)


def _variables(environ: bytes) -> dict[str, str]:
    words = os.fsdecode(environ).split("\0")
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def open_files(pid: int) -> list[str] | None:
    """Return the targets of the descriptors of `pid`; [] if it is gone, None without permission."""
    directory = f"/proc/{pid}/fd"
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, ProcessLookupError):
        return []
    except PermissionError:
        return None
    found = []
    for name in names:
        try:
            found.append(os.readlink(f"{directory}/{name}"))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def run_of(pid: int, root: str) -> str | None:
    """Return the run under `root` whose mark `pid` carries, without a mark the one to whose log of a rank it writes.

    None for processes of another pid namespace.
    """
    environ = _environ(pid)
    if _ROOT_MARK in environ:
        env = _variables(environ)
        run = env.get(RUN_MARK) if env.get(ROOT_MARK) == root else None
    else:
        run = _logging_run(pid, root)
    return run if run is None or link_of(f"/proc/{pid}/ns/pid") == link_of(f"/proc/{os.getpid()}/ns/pid") else None


def _logging_run(pid: int, root: str) -> str | None:
    if stat_of(pid)[4:5] != ["0"]:
        return None  # It has a terminal: the shell of a person.
    for target in (link_of(f"/proc/{pid}/fd/1"), link_of(f"/proc/{pid}/fd/2")):
        if target.startswith(root) and (log := _LOG.match(target[len(root) :])) is not None:
            return log[1]
    return None


def of_run(run: str, root: str) -> list[Process]:
    """Return the processes that carry the mark of `run` or descend from this process, without zombies.

    A rank may have become another user (gosu, su, sudo): descent finds it, and root reads its mark.
    """
    uid, own = os.getuid(), os.getpid()
    owners = {process: owner for process, owner in owned_by(lambda owner: True) if process.state != "Z"}
    family = descendants(owners, [own])
    return [
        process
        for process, owner in owners.items()
        if process.pid in family or (process.pid != own and uid in (0, owner) and run_of(process.pid, root) == run)
    ]


def descendants(processes: Iterable[Process], ancestors: Iterable[int]) -> set[int]:
    """Return the ids of those `processes` that descend from `ancestors`."""
    children: dict[int, list[int]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = list(ancestors)
    while waiting:
        for pid in children.get(waiting.pop(), []):
            if pid not in found:
                found.add(pid)
                waiting.append(pid)
    return found


def send(process: Process, signum: int) -> None:
    """Send a signal to exactly `process`; do nothing if it is gone, or if this user may not signal it."""
    try:
        if hasattr(os, "pidfd_open"):
            handle = os.pidfd_open(process.pid)
            try:
                if is_still(process):
                    signal.pidfd_send_signal(handle, signum)
            finally:
                os.close(handle)
        elif is_still(process):
            os.kill(process.pid, signum)
    except (ProcessLookupError, PermissionError):
        return


def is_still(process: Process) -> bool:
    """Return whether `process` exists, and its id is not that of another one."""
    try:
        return read(process.pid).started == process.started
    except (FileNotFoundError, ProcessLookupError):
        return False


def end_all(
    find: Callable[[], list[Process]], grace_s: float, sleep: Callable[[float], None] = time.sleep
) -> list[Process]:
    """Send SIGTERM to all processes that `find` returns, SIGKILL after `grace_s`, and repeat until none is left.

    Return the processes that survive SIGKILL for SURVIVES_S. The time that `find` takes counts; time for which this
    process is paused after it does not.
    """
    signalled: set[tuple[int, int]] = set()
    left = find()
    begun = now = time.monotonic()
    killed: float | None = None
    while left:
        if killed is not None and now > killed + SURVIVES_S:
            break
        if killed is None and now >= begun + grace_s:
            killed = now
        for process in left:
            if killed is not None:
                send(process, signal.SIGKILL)
            elif (process.pid, process.started) not in signalled:
                signalled.add((process.pid, process.started))
                send(process, signal.SIGTERM)
                send(process, signal.SIGCONT)  # A stopped process handles SIGTERM only after SIGCONT.
        sleep(POLL_S)
        now = time.monotonic()
        left = find()
    return left


def close_files(keep: Collection[int]) -> None:
    """Close all descriptors of this process but those of stdin, stdout and stderr, and `keep`."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):  # The directory listing had a descriptor of its own.
                os.close(int(name))
