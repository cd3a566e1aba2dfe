"""Tasks of a playbook: a line for each that changed something or failed, when it is over on all hosts."""

import time
from collections.abc import Callable

from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.hostset import fold
from pylaunch.terminal import console
from pylaunch.transport.runner import Progress, TaskStatus

LONG_S = 5.0
"""Shortest duration that is shown, in seconds."""


@dataclass
class TaskProgress:
    """One task on its way through the hosts."""

    role: str
    task: str
    began_at: float
    """Seconds, of a monotonic clock."""

    is_check: bool = False
    """Ansible's check mode: a change is reported, but not made."""

    ended_at: float = 0.0
    started: set[str] = field(default_factory=set)
    ended: dict[TaskStatus, set[str]] = field(default_factory=dict)

    def add(self, event: Progress, now: float) -> None:
        """Record one step of a host."""
        self.ended_at = now
        if event.status is TaskStatus.STARTED:
            self.started.add(event.host)
        else:
            self.ended.setdefault(event.status, set()).add(event.host)

    @property
    def title(self) -> str:
        """The task with its role."""
        return f"{self.role}: {self.task}" if self.role else self.task

    @property
    def running(self) -> str:
        """The task and the hosts on which it still runs, for a line that is redrawn."""
        done = set().union(*self.ended.values())
        waiting = f", waiting for {fold(self.started - done)}" if done and self.started - done else ""
        return f"{self.title}: {len(done)} of {len(self.started)} hosts{waiting}"

    @property
    def report(self) -> str | None:
        """Describe a finished task; None if it changed nothing and failed nowhere."""
        shown = (TaskStatus.CHANGED, TaskStatus.FAILED, TaskStatus.UNREACHABLE)
        words = {each: each.value for each in shown}
        if self.is_check:
            words[TaskStatus.CHANGED] = "would change"
        parts = [f"{words[status]} on {fold(self.ended[status])}" for status in shown if status in self.ended]
        seconds = self.ended_at - self.began_at
        took = f" in {seconds:.0f} s" if seconds >= LONG_S else ""
        return f"{self.title}: {', '.join(parts)}{took}" if parts else None


class TaskLines:
    """Prints tasks as they end: Ansible takes all hosts through a task before it begins the next.

    `redraw` shows the task that runs. With `is_check`, changes are not made.
    """

    def __init__(self, redraw: Callable[[str], None] = lambda _: None, *, is_check: bool = False) -> None:
        self._redraw = redraw
        self._is_check = is_check
        self._current: TaskProgress | None = None

    def add(self, event: Progress, now: float | None = None) -> None:
        """Add one step of a host at `now` (monotonic seconds); print the task that it shows to be over, if any."""
        now = time.monotonic() if now is None else now
        if self._current is None or (self._current.role, self._current.task) != (event.role, event.task):
            self.end()
            self._current = TaskProgress(event.role, event.task, now, self._is_check)
        self._current.add(event, now)
        self._redraw(self._current.running)

    def end(self) -> None:
        """Print the last task of a playbook that is over."""
        if self._current is not None and self._current.report:
            console.say(f"  {self._current.report}")
        self._current = None
