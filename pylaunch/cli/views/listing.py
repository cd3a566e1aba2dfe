"""Runs as `ps` and `status` show them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pylaunch.cli import console
from pylaunch.launch.existing.attach import Question, Standing, ask
from pylaunch.model.argv import quoted
from pylaunch.model.hostset import fold
from pylaunch.model.run import Event, RunRecord
from pylaunch.model.usage import NodeUsage
from pylaunch.store.runs import Recorder, controller


class RecordingWatcher:
    """A `launch.Watcher` that only keeps the record, if it is ours to keep."""

    usage_every_s = 0.0

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder

    def event(self, event: Event) -> None:
        """Keep it."""
        if self._recorder is not None:
            self._recorder.append(event)

    def output(self, host: str, stream: str, text: str, time: float) -> None:
        """Nobody asked for output."""

    def usage(self, host: str, reading: NodeUsage) -> None:
        """Nobody asked."""

    def phase(self, text: str) -> None:
        """Nobody waits."""


def standings(records: Sequence[RunRecord]) -> list[Standing]:
    """How the runs of `records` stand. Asks the nodes of all whose records do not know the end.

    What is learnt is kept, unless a controller is in charge of the run.
    """
    unknown = [record for record in records if record.outcome is None]
    recorders = [
        None if controller(record.plan.run) is not None else Recorder(record.plan.run, console.say)
        for record in unknown
    ]
    asked = [
        Question(record, RecordingWatcher(recorder), is_led=recorder is None)
        for record, recorder in zip(unknown, recorders, strict=True)
    ]
    answers = {}
    for record, recorder, answer in zip(unknown, recorders, ask(asked), strict=True):
        answers[record.plan.run] = answer
        if answer.outcome is not None and recorder is not None:
            recorder.finish(answer.outcome)
    return [answers.get(record.plan.run) or Standing((), record.outcome) for record in records]


def word(answer: Standing) -> str:
    """The status of a run in one word."""
    if answer.outcome is not None:
        return answer.outcome.status.value
    phases = {node.phase for node in answer.nodes}
    for phase in ("running", "stopping", "prepared", "new", "starting", "not answering"):
        if phase in phases:
            return phase
    return "unreachable"


def row(record: RunRecord, answer: Standing, now: float) -> tuple[str, ...]:
    """One run in a table: id, status, ranks, hosts, when it was started, for how long, command."""
    ended = answer.outcome.ended_at if answer.outcome is not None else None
    return (
        record.plan.run,
        word(answer) + (", not proven clean" if answer.outcome is not None and answer.outcome.unproven else ""),
        str(record.plan.world_size),
        fold(node.host.name for node in record.plan.nodes),
        moment(record.created_at),
        duration((ended or now) - record.created_at),
        quoted(record.plan.job.command),
    )


def moment(time: float) -> str:
    """A time as people read it, in their zone."""
    return datetime.fromtimestamp(time, tz=UTC).astimezone().isoformat(sep=" ", timespec="seconds")


def duration(seconds: float) -> str:
    """A length of time in two units at most: "7 s", "3 min 20 s", "2 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
