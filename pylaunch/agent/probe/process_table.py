"""The processes of our user, listed once for all readers that share a process."""

from __future__ import annotations

import functools

from pylaunch.agent.shared import processes


@functools.lru_cache(maxsize=None)
def mine() -> list[processes.Process]:
    """Return the processes of our user at the first call in this process, without this one."""
    return processes.mine()
