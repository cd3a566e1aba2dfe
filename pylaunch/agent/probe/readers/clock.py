"""Time daemons of this host and their state."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from pylaunch.agent.probe.identity import bounding_capabilities
from pylaunch.agent.probe.registry import reader

if TYPE_CHECKING:
    from pylaunch.agent.probe.readings import ClockReading

ASK_S = 3.0
CAP_SYS_TIME = 25
DAEMONS = ("chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "openntpd")
"""Names of processes, which the kernel truncates to fifteen bytes."""


@reader("clock.keeping")
def keeping(question: None) -> ClockReading:
    """Return the running time daemons, the output of `chronyc -c tracking`, and the permission to set the clock."""
    chrony: str | None = None
    running = _running()
    try:
        asked = subprocess.run(
            ["chronyc", "-c", "-n", "tracking"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=ASK_S, check=False,
        )  # fmt: skip
        chrony = asked.stdout.decode("utf-8", "replace").strip()
    except (FileNotFoundError, PermissionError):
        pass
    return {"daemons": running, "chrony": chrony, "may_set": bool(bounding_capabilities() >> CAP_SYS_TIME & 1)}


def _running() -> list[str]:
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/comm", encoding="utf-8", errors="replace") as file:
                found.add(file.read().strip())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [daemon for daemon in DAEMONS if daemon in found]
