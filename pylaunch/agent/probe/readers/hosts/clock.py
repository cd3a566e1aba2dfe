"""Time daemons of this host and their state."""

from __future__ import annotations

import contextlib
import os

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared.programs import ended
from pylaunch.agent.shared.text import text_of, text_or_none
from pylaunch.protocol.readings.hosts import ClockReading

ASK_S = 3.0
CAP_SYS_TIME = 25
CHRONYD = "chronyd"
DAEMONS = (CHRONYD, "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "openntpd")
"""Names of processes, which the kernel truncates to fifteen bytes."""


@reader("clock.keeping")
def keeping(question: None) -> ClockReading:
    """Return the running time daemons, the output of `chronyc -c tracking`, and the permission to set the clock.

    chronyc is asked only where chronyd runs.
    """
    running = _running()
    chrony: str | None = None
    if CHRONYD in running:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            chrony = ended(["chronyc", "-c", "-n", "tracking"], joined=True, deadline_s=ASK_S).output.strip()
    return {"daemons": running, "chrony": chrony, "may_set": bool(bounding_capabilities() >> CAP_SYS_TIME & 1)}


def _running() -> list[str]:
    found = {text_or_none(f"/proc/{name}/comm") for name in filter(str.isdigit, os.listdir("/proc"))}
    return [daemon for daemon in DAEMONS if daemon in found]


def bounding_capabilities() -> int:
    """Bit mask of the capabilities that the first process of this host may ever have."""
    for line in text_of("/proc/1/status").splitlines():
        if line.startswith("CapBnd:"):
            return int(line.split()[1], 16)
    return 0
