"""Tasks of a playbook: a line for each that changed something or failed, when it is over on all hosts."""

from __future__ import annotations

import time
from collections.abc import Callable

from pylaunch.provision.progress import TaskFollower
from pylaunch.terminal import console
from pylaunch.transport.runner import Progress


class TaskLines:
    """Prints tasks as they end; `redraw` shows the task that runs. With `is_check`, changes are not made."""

    def __init__(self, redraw: Callable[[str], None] = lambda _: None, *, is_check: bool = False) -> None:
        self._redraw = redraw
        self._follower = TaskFollower(is_check=is_check)

    def add(self, event: Progress) -> None:
        """Print the task that ended with `event`, if one did."""
        ended = self._follower.add(event, time.monotonic())
        if ended is not None and ended.report:
            console.say(f"  {ended.report}")
        if self._follower.current is not None:
            self._redraw(self._follower.current.running)

    def end(self) -> None:
        """Print the last task of a playbook that is over."""
        if (last := self._follower.end()) is not None and last.report:
            console.say(f"  {last.report}")
