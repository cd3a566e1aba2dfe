"""Find what ended the agent of a run that left no report of its end: the kernel's log, or its own traceback."""

from __future__ import annotations

import time

from pylaunch.agent.evidence import kernel_messages
from pylaunch.agent.logs.tail import last_lines
from pylaunch.agent.shared import run_lock
from pylaunch.base import kernel_log
from pylaunch.base.layout import RunDirectory

SLACK_S = 60.0
"""Tolerated drift between timestamps of the kernel log and the clock. Older messages may be about another process."""

_BY_KERNEL = {
    kernel_log.OOM_KILL: "the kernel killed it for lack of memory",
    kernel_log.SEGFAULT: "it crashed with a segmentation fault",
}


def what_ended_agent(directory: RunDirectory, kmsg: str = kernel_messages.KMSG) -> str:
    """Return a clause about the end of the run's agent; "" where nothing shows it, as after a `kill -9`."""
    holder = run_lock.last_holder(directory)
    if holder is not None:
        since = time.clock_gettime(time.CLOCK_MONOTONIC) - (time.time() - holder.since) - SLACK_S
        for line in reversed(kernel_messages.about(holder.pid, since, kmsg)):
            if line.kind in _BY_KERNEL:
                return _BY_KERNEL[line.kind]
    lines = last_lines(directory.file("agent.log"))
    return f"it crashed: {lines[-1]}" if any(line.startswith("Traceback ") for line in lines) else ""
