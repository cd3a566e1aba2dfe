"""Detect ranks that the OOM killer ended, and the memory limit that they reached.

The kernel counts OOM kills of the whole host (/proc/vmstat) and of a cgroup (memory.events; memory.oom_control in
version 1). The counts are sampled once a second, so that an increase belongs to the last moments before a rank's end.
"""

from __future__ import annotations

import os

from pylaunch import protocol
from pylaunch.agent.shared import cgroups
from pylaunch.agent.shared.text import meminfo, text_of
from pylaunch.base.dataclass import dataclass

LOOK_S = 1.0
KEPT = 30
"""Samples: on a busy host, a process ends seconds after the kernel chose it."""

LEFT = 0.5
"""Share of the host's memory that was available while the kernel ended a process, from which another limit ended it."""


@dataclass(frozen=True)
class Counts:
    """OOM kills so far; None if the kernel does not count them."""

    of_host: int | None
    of_cgroup: int | None
    available: int = 0
    """Available memory of the host in bytes."""


class Memory:
    """Sampler of the OOM kill counts of this host and of the cgroup of the agent and its ranks."""

    def __init__(self, membership: str | None = None, root: str = cgroups.CGROUPS) -> None:
        self._cgroups = memory_cgroups(text_of("/proc/self/cgroup") if membership is None else membership, root)
        self._samples = [self._counts()]
        self._next = 0.0

    def tick(self, now: float) -> None:
        """Sample the counts, if it is time to. Must be called at least every second; `now` is monotonic."""
        if now >= self._next:
            self._next = now + LOOK_S
            self._samples = [*self._samples, self._counts()][-KEPT:]

    def killer(self, *, by_sigkill: bool, is_logged: bool = False) -> protocol.OutOfMemory | None:
        """Return the limit that a rank that has just failed has reached; None without a sign of an OOM kill.

        `certain` only if SIGKILL ended the rank and the kernel logged its process id (`is_logged`), or the count of a
        cgroup rose that does not contain the whole host.
        """
        rise_of_host, rise_of_cgroup = self._rises(self._samples[0] if is_logged else self._samples[-2:][0])
        if rise_of_cgroup:
            limit, of = self._limit()
            return protocol.OutOfMemory(is_logged or (by_sigkill and len(self._cgroups) > 1), limit, of)
        if is_logged:
            return protocol.OutOfMemory(True, *_of_host())
        if rise_of_cgroup is None and rise_of_host and by_sigkill:
            return self._outside() or protocol.OutOfMemory(False, *_of_host())
        return None

    def _outside(self) -> protocol.OutOfMemory | None:
        """Return a kill by a limit that this node does not see, if the host had memory left: its least in the last
        seconds."""
        least = min(each.available for each in self._samples[-3:])
        is_left = least > LEFT * meminfo()["MemTotal"]
        return protocol.OutOfMemory(False, least, "outside") if is_left else None

    def _rises(self, before: Counts) -> tuple[int | None, int | None]:
        now = self._counts()
        return _rise(before.of_host, now.of_host), _rise(before.of_cgroup, now.of_cgroup)

    def _counts(self) -> Counts:
        of_cgroup = kills_in(self._cgroups[0]) if self._cgroups else None
        return Counts(cgroups.oom_kills(), of_cgroup, meminfo().get("MemAvailable", 0))

    def _limit(self) -> tuple[int, str]:
        """Return the tightest limit of the cgroup and its ancestors, else the memory of the host."""
        found = [(limit, directory) for directory in self._cgroups if (limit := limit_of(directory)) is not None]
        return (min(found)[0], "cgroup") if found else _of_host()


def memory_cgroups(membership: str, root: str) -> list[str]:
    """Return the directories of the cgroup that accounts for our memory, and of its ancestors."""
    lines = [line.split(":", 2) for line in membership.splitlines() if line.count(":") >= 2]
    first = [line for line in lines if "memory" in line[1].split(",")]
    for _, controllers, path in first or [line for line in lines if not line[1]]:
        top = cgroups.mounted(root, "memory" if controllers else "", controllers)
        if top is not None:
            return [directory for directory in cgroups.chain(top, path) if os.path.isdir(directory)]
    return []


def kills_in(directory: str) -> int | None:
    """Return the number of OOM kills in a cgroup; None if the kernel does not count them."""
    for name in ("memory.events", "memory.oom_control"):
        for line in cgroups.text(directory, name).splitlines():
            word, _, number = line.partition(" ")
            if word == "oom_kill" and number.isdigit():
                return int(number)
    return None


def limit_of(directory: str) -> int | None:
    """Return the memory limit of a cgroup in bytes; None for no limit."""
    for name in ("memory.max", "memory.limit_in_bytes"):
        limit = cgroups.number(directory, name)
        if limit is not None and limit < cgroups.UNLIMITED_V1:
            return limit
    return None


def _of_host() -> tuple[int, str]:
    return meminfo()["MemTotal"], "host"


def _rise(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else max(0, now - before)
