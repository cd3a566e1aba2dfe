"""Runs as cells of a table and as JSON, for every verb that shows runs."""

import time
from collections.abc import Mapping
from typing import TextIO

from pylaunch.model.diagnosis.cause import FailureCause
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, PreviousAttempt
from pylaunch.model.slurm_job import JobState
from pylaunch.model.text.argv import Argv, pylaunch, quoted
from pylaunch.model.text.quantity import duration, moment
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.runs.events import Attached, AttemptStarted, RunBegun, StartEvent
from pylaunch.runs.status import RunReport, previous_attempt, start_seconds, statuses
from pylaunch.store import runs
from pylaunch.terminal import console, document
from pylaunch.terminal.doors import RunObserver
from pylaunch.terminal.options import current

UNREACHABLE = "unreachable"

JOBS_OF_VERBS = {
    "ranks.bench_rank": "bench",
}
"""Modules that verbs start as a job, with arguments of their own → the verb."""


LONGEST_COMMAND = 200
"""Characters of a command in a listing; `status --json` has all."""

COLUMNS = ("RUN", "STATUS", "RANKS", "HOSTS", "STARTED", "FOR", "COMMAND")
"""Heads of the cells of `row`, in `ps` and `status`."""


def doubt(outcome: Outcome) -> str:
    """Return what is not clean after a run, behind its state; "" if nothing of it is left."""
    return ", not proven clean" if outcome.unproven else ", not clean" if outcome.leftovers else ""


def row(report: RunReport, now: float) -> tuple[str, ...]:
    """Return the cells of a run: id, state, ranks, hosts, start, duration, command."""
    record, outcome = report.record, report.status.outcome
    ended = outcome.ended_at if outcome is not None else None
    return (
        record.plan.run,
        report.status.state + ("" if outcome is None else doubt(outcome)),
        str(record.plan.world_size),
        fold(node.host.name for node in record.plan.nodes),
        moment(record.created_at),
        duration((ended or now) - record.created_at),
        job_words(record.plan.job.command),
    )


def job_words(command: Argv) -> str:
    """Return the command of a job in one line of at most LONGEST_COMMAND characters; for a job of a verb, the verb."""
    if (verb := verb_of(command)) is not None:
        return f"pylaunch {verb}"
    line = " ".join(quoted(command).splitlines())
    return line if len(line) <= LONGEST_COMMAND else f"{line[:LONGEST_COMMAND]}…"


def verb_of(command: Argv) -> str | None:
    """Return the verb that started a job with arguments of its own; None for a job of a user."""
    return JOBS_OF_VERBS.get(command[1]) if command[:1] == ("-m",) and len(command) > 1 else None


def part_cell(report: RunReport) -> str:
    """Return the job of several roles and the part of it that a run is: "7f3a9c01 rollout.0"; "" for others."""
    part = report.record.plan.job.part
    return "" if part is None else f"{part.job} {part.name}"


def slurm_cell(report: RunReport) -> str:
    """Return the Slurm jobs of a run, with the states that are known: "12 RUNNING"; "" for a run without."""
    jobs = report.record.plan.slurm_jobs
    return ", ".join(f"{job} {report.jobs[job].state}" if job in report.jobs else job for job in jobs)


def summary(report: RunReport, now: float) -> dict[str, object]:
    """Return one run, as `ps` lists it."""
    record, ended = report.record, report.status.outcome
    ended_at = None if ended is None else ended.ended_at
    return {
        "run": record.plan.run,
        "status": report.status.state,
        "unproven": [] if ended is None else list(ended.unproven),
        "ranks": record.plan.world_size,
        "hosts": [node.host.name for node in record.plan.nodes],
        "created": document.moment(record.created_at),
        "ended": None if ended_at is None else document.moment(ended_at),
        "seconds": round((ended_at or now) - record.created_at, 1),
        "command": quoted(record.plan.job.command),
        "inventory": list(record.plan.sources),
        "slurm_jobs": slurm_jobs(record.plan, report.jobs),
        "part_of": part_of(record.plan),
    }


def part_of(plan: RunPlan) -> dict[str, str] | None:
    """Return the place of a run in a job of several roles; None for a run of its own."""
    part = plan.job.part
    return None if part is None else {"job": part.job, "name": part.job_name, "role": part.role, "part": part.name}


def slurm_jobs(plan: RunPlan, states: Mapping[str, JobState]) -> list[dict[str, object]]:
    """Return the Slurm jobs that the nodes of a run belong to."""
    return [
        {
            "job": job,
            "state": states[job].state if job in states else None,
            "submitted": job == plan.submitted_job,
        }
        for job in plan.slurm_jobs
    ]


def details(report: RunReport) -> dict[str, object]:
    """Return one run, node by node, with its outcome."""
    ended = report.status.outcome
    return {
        **summary(report, time.time()),
        "controller": report.controller or None,
        "controller_is_stopped": report.has_stopped_controller,
        "spares": [host.name for host in report.record.plan.spares],
        "previous": previous_data(previous_attempt(report.record.plan)),
        "start_seconds": start_seconds(report.record),
        "nodes": _nodes(report),
        "outcome": None if ended is None else outcome(report.record.plan, ended),
    }


def previous_data(previous: PreviousAttempt | None) -> dict[str, str] | None:
    """Return the attempt before this one."""
    return None if previous is None else {"run": previous.run, "reason": previous.reason}


def _event(happened: Event) -> dict[str, object]:
    """Return an event as its record has it and as a person reads it."""
    return {
        "time": document.moment(happened.time),
        "kind": happened.kind.value,
        "host": happened.host,
        "rank": happened.rank,
        "text": happened.text or None,
    }


class EventStream(RunObserver):
    """Prints each event of a run to `out`, one document a line.

    A run that this process leads continues when the reader is gone. Raises OSError for the run of another controller.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._run = ""
        self._leads = True
        self._invocation = current()  # Parts of a job report from threads of their own.

    def on_event(self, event: StartEvent) -> None:
        """Print `event`, with the attempt that it belongs to."""
        match event:
            case RunBegun(plan) | AttemptStarted(plan):
                self._run = plan.run
            case Attached(record, leads):
                self._run, self._leads = record.plan.run, leads
            case Event():
                self._print(event)
            case _:
                pass

    def _print(self, event: Event) -> None:
        try:
            document.line({"run": self._run, "event": _event(event)}, self._out, self._invocation)
        except OSError as error:
            if not self._leads:
                raise
            console.silence(self._out)
            hint = pylaunch("attach", self._run, "--json")
            console.say(f"events cannot be printed here any more ({error.strerror}); the run continues: {hint}")


def latest(run: str) -> dict[str, object]:
    """Return the newest recorded attempt of `run`."""
    attempts = runs.attempts(run)
    if not attempts:
        return {"run": run}
    record = runs.read(attempts[-1])
    (status,) = statuses([record], console.say)
    return details(RunReport(record, status, runs.controller(record.plan.run)))


def _nodes(report: RunReport) -> list[dict[str, object]]:
    known = {node.host: node for node in report.status.nodes}
    entries: list[dict[str, object]] = []
    for host in (node.host.name for node in report.record.plan.nodes):
        node = known.get(host)
        is_silent = node is not None and node.phase == UNREACHABLE
        entries.append(
            {
                "host": host,
                "unreachable": node.reason if node is not None and is_silent else None,
                "phase": "ended" if node is None else None if is_silent else node.phase,
                "running": [] if node is None else list(node.running),
                "reason": None if node is None or is_silent else node.reason or None,
            }
        )
    return entries


def outcome(plan: RunPlan, ended: Outcome) -> dict[str, object]:
    """Return the outcome of a run, and whether each of its hosts is proven clean."""
    return {
        "status": ended.status.value,
        "reason": ended.reason,
        "evidence": list(ended.evidence),
        "hint": ended.hint or None,
        "ended": document.moment(ended.ended_at),
        "named": None if ended.named is None else {"host": ended.named.host, "rank": ended.named.rank},
        "causes": [cause_data(each) for each in ended.causes],
        "rejected": [{"reason": each.reason, "why": each.why} for each in ended.rejected],
        "first_failure": None if ended.first_failure is None else _end(ended.first_failure),
        "hosts": [_proof(node.host.name, ended) for node in plan.nodes],
    }


def cause_data(cause: FailureCause) -> Mapping[str, object]:
    """Return a cause of a failure."""
    return {
        "kind": cause.kind,
        "class": cause.text_class or None,
        "page": cause.page or None,
        "reason": cause.reason,
        "confidence": cause.confidence.value,
        "host": None if cause.named is None else cause.named.host,
        "rank": None if cause.named is None else cause.named.rank,
        "evidence": list(cause.evidence),
        "question": cause.question or None,
        "hint": cause.hint or None,
    }


def _proof(host: str, ended: Outcome) -> dict[str, object]:
    is_unproven = host in ended.unproven
    left = ended.leftovers.get(host, ())
    return {
        "host": host,
        "unreachable": "not known to be clean" if is_unproven else None,
        "clean": None if is_unproven else not left,
        "left_behind": list(left),
        "refused": list(ended.refusals.get(host, ())),
    }


def _end(end: RankEnd) -> Mapping[str, object]:
    return {
        "host": end.host,
        "rank": end.rank,
        "exit_code": end.exit_code,
        "signal": end.signal,
        "time": document.moment(end.time),
        "symptom": end.symptom or None,
        "last_lines": list(end.last_lines),
    }
