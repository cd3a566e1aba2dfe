"""OOM kills, hung processes, and limits of our cgroups, from the kernel."""

from __future__ import annotations

import os
import re
import time

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import programs
from pylaunch.agent.shared.cgroups import CGROUPS, UNLIMITED_V1, chain, mounted, number, oom_kills, text
from pylaunch.agent.shared.text import stat_of, text_of, waits_in
from pylaunch.base import kernel_log
from pylaunch.protocol.readings.hosts import (
    CgroupLimit,
    CgroupsReading,
    KernelLogReading,
    LogLine,
    LogLines,
    StuckProcess,
)

STUCK_FOR_S = 1.0
"""Time in uninterruptible sleep, without one wake-up, after which a process is reported."""

LOG_LINES = 20000
SUBJECTS = {
    kernel_log.OOM_KILL: "killed",
    kernel_log.HUNG_TASK: "hung",
    kernel_log.LOCKUP: "hung",
    kernel_log.READ_ONLY: "storage",
    kernel_log.IO_ERROR: "storage",
}
"""Kind of a kernel message → field of the reading."""

KEPT = 5


@reader("kernel.log")
def log(question: None) -> KernelLogReading:
    """Return the relevant lines of the kernel log since boot with their age; `readable` is False without permission.

    `oom_kills` is the kernel's own count since boot, null before Linux 4.13.
    """
    lines = log_lines()
    now = time.time()
    found: dict[str, list[LogLine]] = {"killed": [], "hung": [], "storage": []}
    for at, line in lines or ():
        event = kernel_log.parse(line)
        if event is not None and event.kind in SUBJECTS:
            found[SUBJECTS[event.kind]].append({"age_s": round(now - at), "text": line[:200]})
    return {
        "readable": lines is not None,
        "oom_kills": oom_kills(),
        "killed": _last(found["killed"]),
        "hung": _last(found["hung"]),
        "storage": _last(found["storage"]),
    }


def _last(lines: list[LogLine]) -> LogLines:
    return {"count": len(lines), "last": lines[-KEPT:]}


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


@reader("kernel.stuck")
def stuck(question: None) -> list[StuckProcess]:
    """Return the processes that stay in uninterruptible sleep for STUCK_FOR_S without one wake-up."""
    before = asleep()
    if not before:
        return []
    time.sleep(STUCK_FOR_S)
    after = asleep()
    return [
        {"pid": pid, "command": command, "waits_in": waits_in(pid)}
        for (pid, switches), command in after.items()
        if (pid, switches) in before
    ]


def asleep() -> dict[tuple[int, str], str]:
    """Return (process id, context switches so far) → command of all processes in uninterruptible sleep."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if stat_of(int(name))[:1] != ["D"]:
                continue  # `status`, which has more, takes the kernel five times as long.
            with open(f"/proc/{name}/status", encoding="utf-8", errors="replace") as file:
                fields = dict(line.rstrip("\n").partition(":")[::2] for line in file)
        except (FileNotFoundError, ProcessLookupError):
            continue
        # Other readers of this probe may hang too; their deadlines report them.
        is_ours = fields.get("PPid", "").strip() == str(os.getppid())
        if fields.get("State", "").strip().startswith("D") and not is_ours:
            switches = fields.get("voluntary_ctxt_switches", "").strip()
            found[(int(name), switches)] = fields["Name"].strip()
    return found


@reader("kernel.cgroups")
def cgroups(question: None) -> CgroupsReading:
    """Return the tightest limits of our cgroup and its ancestors, versions 1 and 2; null for no limit."""
    return tightest(text_of("/proc/self/cgroup"), CGROUPS)


def tightest(membership: str, root: str) -> CgroupsReading:
    """Return the tightest limits of the cgroups in `membership` (content of /proc/self/cgroup) and their ancestors.

    The hierarchies are mounted under `root`. Memory is in bytes.
    """
    found: CgroupsReading = {"memory": None, "processors": None, "processes": None, "oom_kills": 0}
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
    if controller == "":
        quota, period = [*text(directory, "cpu.max").split(), "max", "100000"][:2]
        if quota.isdigit():
            found["processors"] = tighter(found["processors"], int(quota) / int(period), None, directory)
        events = dict(line.split() for line in text(directory, "memory.events").splitlines())
        found["oom_kills"] = max(found["oom_kills"], int(events.get("oom_kill", 0)))
    if controller == "cpu":
        allowed, each = number(directory, "cpu.cfs_quota_us"), number(directory, "cpu.cfs_period_us")
        if allowed is not None and allowed > 0 and each:
            found["processors"] = tighter(found["processors"], allowed / each, None, directory)
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
