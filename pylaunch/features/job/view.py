"""Output of a job: lines of all parts with their names, the end of each part, and the verdict of the job."""

import threading
from collections.abc import Sequence

import click
from click.globals import pop_context, push_context

from pylaunch.features.job.controller import PartOver, PlannedPart
from pylaunch.features.job.course import Course, Phase
from pylaunch.features.job.job_file import JobFile
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Status
from pylaunch.model.run import Event
from pylaunch.model.secret import masked
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.quantity import counted
from pylaunch.runs.events import (
    AttemptEnded,
    AttemptRefused,
    AttemptStarted,
    LinesWritten,
    ProgressReported,
    RunBegun,
    StartEvent,
)
from pylaunch.runs.follow.run_follower import STOPS
from pylaunch.runs.prepare.session import InterruptedBeforeReleaseError
from pylaunch.terminal import console, document, hints
from pylaunch.terminal.views.live import Live, lines
from pylaunch.terminal.views.outcome import show_outcome


class JobView:
    """Prints the events of all parts, each line with the name of its part."""

    def __init__(self, parts: Sequence[PlannedPart]) -> None:
        self._width = max(len(each.part.name) for each in parts)
        self._live: dict[str, Live] = {}
        self._phases: dict[str, Phase] = {}
        self._is_ending = False
        self._context = click.get_current_context()
        self._lock = threading.Lock()
        """Held while several lines are printed that belong together."""

    def show(self, planned: PlannedPart, event: StartEvent | PartOver) -> None:
        """Print an event of a part. Parts report from threads of their own, in which hints need the command line."""
        push_context(self._context)
        try:
            self._show(planned, event)
        finally:
            pop_context()

    def _show(self, planned: PlannedPart, event: StartEvent | PartOver) -> None:
        name = planned.part.name
        match event:
            case AttemptStarted(plan):
                self._say(
                    name,
                    f"run {plan.run}: {counted(plan.world_size, 'rank')} on {fold(plan.cluster.names)} "
                    f"({plan.job.framework.value})",
                )
                self._live[name] = Live(plan, leads=True, label=f"{name:<{self._width}} ")
            case Event(text=text) if text == STOPS:
                pass
            case LinesWritten() | ProgressReported() | Event() if name in self._live:
                self._live[name].show(event)
            case AttemptEnded(plan, outcome, ran_s):
                with self._lock:
                    console.say(f"{name}:")
                    show_outcome(plan, outcome, ran_s)
            case AttemptRefused():
                self._refused(name, event.error.render())
            case PartOver(error=InterruptedBeforeReleaseError()):
                self._say(name, "was not started")
            case PartOver(error=error) if error is not None:
                self._refused(name, error.render())
            case PartOver() | RunBegun():
                pass
            case _:
                for line in lines(event):
                    self._say(name, line)

    def changed(self, course: Course) -> None:
        """Print parts that became ready, and how a person who stops the job can kill it."""
        if course.ending is not None and not self._is_ending:
            self._is_ending = True
            if course.ending.status is Status.STOPPED and not course.ending.part:
                console.say(STOPS)
        for name, part in course.parts.items():
            before, self._phases[name] = self._phases.get(name), part.phase
            if part.phase is before or part.phase is not Phase.READY or part.role.ready is None:
                continue
            self._say(name, f"ready ({part.role.ready.words})" + (f": {part.last_test}" if part.last_test else ""))

    def _say(self, name: str, text: str) -> None:
        console.say(f"{name:<{self._width}} {text}")

    def _refused(self, name: str, text: str) -> None:
        with self._lock:
            console.say(f"{name}:")
            console.say(hints.completed(text))


def show_end(job: str, course: Course, parts: Sequence[PlannedPart]) -> None:
    """Print how the job ended, the part that failed first, and the next command."""
    ending = course.ending
    if ending is None:
        return
    runs = {each.part.name: each.run for each in parts}
    if ending.status is Status.DONE:
        console.say(f"job {job} done: {ending.reason}", style="green")
        return
    detail = f": {ending.detail}" if ending.detail else ""
    if ending.status is Status.STOPPED:
        console.say(f"job {job} stopped: {ending.reason}{detail}")
        return
    console.say(f"error: job {job}: {ending.reason}{detail}")
    first, related = course.first_failures(), course.related_failures()
    if len(first) == 1:
        console.say(f"failed first: {first[0].part}: {first[0].text}")
    elif first:
        console.say("failed at the same time, as far as the clocks show:")
        console.quote([f"{each.part}: {each.text}" for each in first])
    for each in related:
        if each not in first:
            console.say(f"then: {each.part}: {each.text}")
    names = dict.fromkeys(each.part for each in first) or {ending.part: None}
    if ending.status is Status.FAILED:
        hints.say(
            *(f"pylaunch logs {runs[name]}    # {name}" for name in names), f"pylaunch report {job_id(parts)}    # all"
        )


def outcome_data(job: JobFile, course: Course, parts: Sequence[PlannedPart]) -> dict[str, object]:
    """Return the content of the JSON document."""
    ending = course.ending
    return {
        "job": job.name,
        "id": job_id(parts),
        "status": None if ending is None else ending.status.value,
        "reason": None if ending is None else ": ".join(filter(None, (ending.reason, ending.detail))),
        "failed_first": [{"part": each.part, "run": each.run, "text": each.text} for each in course.first_failures()],
        "parts": [
            {
                **_part(each),
                "status": state.status.value if (state := course.parts[each.part.name]).status else None,
                "reason": state.reason,
                "released": None if state.released_at is None else document.moment(state.released_at),
            }
            for each in parts
        ],
    }


def plan_data(job: JobFile, parts: Sequence[PlannedPart]) -> dict[str, object]:
    """Return the content of the JSON document of --dry-run."""
    return {"job": job.name, "id": job_id(parts), "parts": [_part(each) for each in parts]}


def job_id(parts: Sequence[PlannedPart]) -> str:
    """Return the id of the job, which other verbs take."""
    return next(part.job for each in parts if (part := each.planned.plan.job.part) is not None)


def end_reason(course: Course, parts: Sequence[PlannedPart]) -> str:
    """Return why the job ended, without any text of a node: it may contain a secret of a role."""
    ending = course.ending
    if ending is None:
        return ""
    runs = {each.part.name: each.run for each in parts}
    first = [f"{each.part} (run {runs[each.part]})" for each in course.first_failures()]
    return ending.reason + (f"; failed first: {', '.join(first)}" if first else "")


def _part(each: PlannedPart) -> dict[str, object]:
    part, plan = each.part, each.planned.plan
    return {
        "part": part.name,
        "role": part.role.name,
        "replica": part.replica,
        "run": each.run,
        "hosts": list(part.cluster.names),
        "ranks": plan.world_size,
        "ports": dict(part.ports),
        "command": list(masked(plan.job.command)),
        "after": list(part.role.after),
        "ready": None if part.role.ready is None else part.role.ready.words,
        "service": part.role.service,
    }


def show_plan(job: JobFile, parts: Sequence[PlannedPart]) -> None:
    """Print the plan of a job."""
    console.say(f"job {job.name}: {counted(len(parts), 'run')} of {counted(len(job.roles), 'role')}")
    for each in parts:
        role, plan = each.part.role, each.planned.plan
        ports = "".join(f", {name} on a free port, here {number}" for name, number in each.part.ports.items())
        console.data(f"{each.part.name}: {counted(plan.world_size, 'rank')} on {fold(each.part.cluster.names)}{ports}")
        console.data(f"    {quoted(masked(plan.job.command))}  ({plan.job.framework.value})")
        if plan.job.container is not None:
            console.data(f"    container: {plan.job.container.words}")
        if role.after:
            console.data(f"    after {', '.join(role.after)}")
        if role.ready is not None:
            console.data(f"    ready when {role.ready.words}, within {role.ready_timeout:g} s")
        end = "is stopped when the other roles have ended" if role.service else "ends on its own"
        console.data(f"    {end}")
