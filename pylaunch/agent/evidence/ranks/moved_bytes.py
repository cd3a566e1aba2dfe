"""Bytes that the processes of each rank read and write, from /proc/PID/io. A rank notices nothing.

The kernel counts `read`, `write` and page faults, but not `recv` and `send`. The thread that answers the agent is left
out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from pylaunch.agent.evidence.ranks.rank_states import family
from pylaunch.agent.in_rank.questions import THREAD
from pylaunch.agent.shared.text import names_in, text_of, text_or_none

READ_S = 0.2
"""Time for all ranks, in which the agent does nothing else. Ranks beyond it are left out."""

MOST_THREADS = 4000
"""Threads of one process that are read."""

COUNTERS = ("rchar", "wchar", "read_bytes", "write_bytes")


def of_ranks(pids: Mapping[int, int]) -> dict[int, int]:
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
    tasks = [f"/proc/{pid}/task/{thread}" for thread in names_in(f"/proc/{pid}/task", MOST_THREADS)]
    return _io(f"/proc/{pid}") - sum(_io(task) for task in tasks if text_or_none(f"{task}/comm") == THREAD)


def _io(directory: str) -> int:
    try:
        fields = dict(line.split(": ", 1) for line in text_of(f"{directory}/io").splitlines())
        return sum(int(fields[name]) for name in COUNTERS)
    except (OSError, ValueError, KeyError):
        return 0
