"""OOM kills, and limits of our cgroups, from the kernel."""

from __future__ import annotations

import re
import time

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import programs
from pylaunch.agent.shared.cgroups import CGROUPS, UNLIMITED_V1, chain, mounted, number, oom_kills
from pylaunch.agent.shared.text import text_of
from pylaunch.base import kernel_log
from pylaunch.protocol.readings.hosts import (
    CgroupLimit,
    CgroupsReading,
    KernelLogReading,
    LogLine,
)

LOG_LINES = 20000

KEPT = 5


@reader("kernel.log")
def log(question: None) -> KernelLogReading:
    """Return the OOM kills in the kernel log since boot with their age; `readable` is False without permission.

    `oom_kills` is the kernel's own count since boot, null before Linux 4.13.
    """
    lines = log_lines()
    now = time.time()
    killed: list[LogLine] = []
    for at, line in lines or ():
        event = kernel_log.parse(line)
        if event is not None and event.kind == kernel_log.OOM_KILL:
            killed.append({"age_s": round(now - at), "text": line[:200]})
    return {
        "readable": lines is not None,
        "oom_kills": oom_kills(),
        "killed": {"count": len(killed), "last": killed[-KEPT:]},
    }


def log_lines() -> list[tuple[float, str]] | None:
    """Return the kernel log as (time, text); None without permission."""
    for words in (
        ["journalctl", "--dmesg", "--boot", "--no-pager", "--quiet", "--output=short-unix", f"--lines={LOG_LINES}"],
        ["dmesg", "--raw"],
    ):
        try:
            ended = programs.ended(words)
        except FileNotFoundError:
            continue
        if ended.status == 0 and ended.output.strip():
            return timed_lines(ended.output, time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))
    return None


def timed_lines(text: str, booted: float) -> list[tuple[float, str]]:
    """Parse journalctl's short-unix ("1763672000.123456 host kernel: text") or dmesg ("<6>[  12.345] text")."""
    found = []
    for line in text.splitlines():
        journal = re.match(r"(\d+\.\d+) \S+ kernel: (.*)", line)
        ring = re.match(r"<\d+>\[\s*(\d+\.\d+)\] (.*)", line)
        if journal:
            found.append((float(journal.group(1)), journal.group(2)))
        elif ring:
            found.append((booted + float(ring.group(1)), ring.group(2)))
    return found


@reader("kernel.cgroups")
def cgroups(question: None) -> CgroupsReading:
    """Return the tightest limits of our cgroup and its ancestors, versions 1 and 2; null for no limit."""
    return tightest(text_of("/proc/self/cgroup"), CGROUPS)


def tightest(membership: str, root: str) -> CgroupsReading:
    """Return the tightest limits of the cgroups in `membership` (content of /proc/self/cgroup) and their ancestors.

    The hierarchies are mounted under `root`. Memory is in bytes.
    """
    found: CgroupsReading = {"memory": None, "processes": None}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        names = controllers.split(",") if controllers else [""]
        for name in names:
            top = mounted(root, name, controllers)
            for directory in chain(top, path) if top is not None else ():
                limits_at(directory, name, found)
    return found


def limits_at(directory: str, controller: str, found: CgroupsReading) -> None:
    """Replace limits in `found` by tighter ones of one cgroup."""
    if controller in ("", "memory"):
        names = ("memory.max", "memory.current") if not controller else MEMORY_V1
        limit, used = number(directory, names[0]), number(directory, names[1])
        found["memory"] = tighter(found["memory"], limit, used, directory)
    if controller in ("", "pids"):
        limit, used = number(directory, "pids.max"), number(directory, "pids.current")
        found["processes"] = tighter(found["processes"], limit, used, directory)


MEMORY_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def tighter(before: CgroupLimit | None, limit: float | None, used: float | None, directory: str) -> CgroupLimit | None:
    """Return the limit of the cgroup `directory` if it leaves less than `before`, else `before`."""
    if limit is None or limit > UNLIMITED_V1:
        return before
    if before is None or limit - (used or 0) < before["limit"] - (before["used"] or 0):
        return {"limit": limit, "used": used, "cgroup": directory}
    return before
