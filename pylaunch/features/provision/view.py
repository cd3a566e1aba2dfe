"""Plan, progress and result of `provision`, in lines and as JSON."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from pylaunch.base.dataclass import dataclass, field
from pylaunch.features.provision.convergence import BatchStarted, ProvisionEvent, ProvisionSurvey
from pylaunch.features.provision.file_lines import FileDifference
from pylaunch.features.provision.provisioning import ProvisionPlan, ProvisionReport
from pylaunch.model.diagnosis.host_errors import OwnNames, Template
from pylaunch.model.hostset import alike, fold
from pylaunch.model.text.quantity import counted, duration
from pylaunch.terminal import console, document, hints
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


Differences = Mapping[str, Sequence[FileDifference]]


class ProvisionView:
    """Prints batches and tasks; `redraw` shows the task that runs. With `is_check`, changes are not made."""

    def __init__(self, redraw: Callable[[str], None] = lambda _: None, *, is_check: bool = False) -> None:
        self._tasks = TaskLines(redraw, is_check=is_check)

    def show(self, event: ProvisionEvent) -> None:
        """Print `event`."""
        if not isinstance(event, BatchStarted):
            self._tasks.add(event)
            return
        self.end()
        console.say(f"{fold(event.hosts)}: {', '.join(event.roles)}")

    def end(self) -> None:
        """Print the last task."""
        self._tasks.end()


def show_lacking(plan: ProvisionPlan) -> None:
    """Print whether an environment is still to be locked."""
    if plan.lacks_environment:
        file = hints.requirements_here() or "requirements.txt"
        console.say(hints.completed(f"python_env: no environment yet; make one: pylaunch env lock {file}"))


def show_plan(plan: ProvisionPlan) -> None:
    """Print the changes as a table. Those that differ only in the name or address of their own host share a row."""
    found, own = plan.found, OwnNames(plan.request.cluster.hosts)
    together: dict[tuple[str, str, Template], list[str]] = {}
    for host, each in found.changes.items():
        for change in each:
            template = own.template(host, change.difference)
            together.setdefault((change.role, change.subject, template), []).append(host)
    rows = [
        (fold(hosts), role, subject, own.filled(template, hosts))
        for (role, subject, template), hosts in together.items()
    ]
    if rows:
        console.table(("hosts", "role", "what", "difference"), rows)
    elif found.changes:
        console.say(f"{counted(len(found.changes), 'host')}: nothing to change")
    _show_notes(found)


def show_lines(differences: Differences) -> None:
    """Print the changed lines of each file; hosts with the same changes share one list."""
    for hosts, difference in alike(differences):
        console.data("\n".join([f"{hosts}: {difference.role}: {difference.path}", *difference.lines]))


def show_summary(report: ProvisionReport, seconds: float) -> None:
    """Print the hosts that changed, those that were not touched, and those that needed nothing."""
    found, done = report.plan.found, report.done
    changed: dict[str, list[str]] = {}
    for host, changes in done.after.changes.items() if done is not None else ():
        if done is not None and not changes:
            tasks = [each for each in done.result.changes if each.host == host and each.role]
            roles = Counter(task.role for task in tasks)
            text = ", ".join(f"{role} {roles[role]} changed" for role in found.wanted.roles if role in roles)
            changed.setdefault(text or "recorded", []).append(host)
    for text, hosts in changed.items():
        console.say(f"{fold(hosts)}: {text}; ok (in {duration(seconds)})", style="green")
    if done is not None:
        _show_notes(done.after)
        if done.untouched:
            console.say(f"not touched: {fold(done.untouched)}", style="yellow")
    if unchanged := [host for host, changes in found.changes.items() if not changes]:
        notes = {note for host in unchanged for note in found.notes[host]}
        listed = f" ({len(notes)} notes: --plan)" if notes else ""
        console.say(f"{counted(len(unchanged), 'host')}: nothing to change{listed}")


def as_json(report: ProvisionReport) -> dict[str, object]:
    """Return every host before and after, for `--json`."""
    found, done, lines = report.plan.found, report.done, report.lines
    failures: dict[str, str] = {}
    tasks: dict[str, list[object]] = {}
    if report.result is not None:
        failures = {failure.host: failure.message for failure in report.result.failures}
        for task in report.result.changes:
            tasks.setdefault(task.host, []).append({"role": task.role, "task": task.task})
    latest = {**found.notes, **(done.after.notes if done is not None else {})}
    reasons = {host: why.reason for host, why in found.unreachable.items()}
    if done is not None:
        reasons |= {host: why.reason for host, why in done.after.unreachable.items()}
    known = {
        host: {
            "differences": [
                {"role": change.role, "subject": change.subject, "difference": change.difference}
                for change in found.changes.get(host, ())
            ],
            "tasks": tasks.get(host, []),
            "remaining": [change.subject for change in done.after.changes.get(host, ())] if done is not None else None,
            "notes": [{"role": note.role, "text": note.text} for note in latest.get(host, ())],
            "failure": failures.get(host),
            "lines": [{"path": each.path, "lines": list(each.lines)} for each in lines.get(host, ())],
        }
        for host in found.answers
        if host not in found.unreachable
    }
    return {"is_plan": done is None, "hosts": document.hosts(found.answers, reasons, known)}


def _show_notes(found: ProvisionSurvey) -> None:
    for hosts, note in alike(found.notes):
        console.say(f"note: {hosts}: {note.role}: {note.text}")
