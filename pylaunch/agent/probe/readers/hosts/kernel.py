"""OOM kills, from the kernel."""

from __future__ import annotations

import re
import time

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import programs
from pylaunch.agent.shared.cgroups import oom_kills
from pylaunch.base import kernel_log
from pylaunch.protocol.readings.hosts import KernelLogReading, LogLine

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
