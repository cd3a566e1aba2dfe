"""Columns of a run in `ps` and `status`; moments and durations in words."""

from typing import TYPE_CHECKING

from pylaunch.model.clock import in_utc
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import Argv, quoted

if TYPE_CHECKING:
    from pylaunch.model.outcome import Outcome
    from pylaunch.runs.status import RunReport  # Imports the parts of a start, which most verbs do not need.

JOBS_OF_VERBS = {
    "ranks.bench_rank": "bench",
}
"""Modules that verbs start as a job, with arguments of their own → the verb."""


LONGEST_COMMAND = 200
"""Characters of a command in a listing; `status --json` has all."""

COLUMNS = ("RUN", "STATUS", "RANKS", "HOSTS", "STARTED", "FOR", "COMMAND")
"""Heads of the cells of `row`."""


def doubt(outcome: "Outcome") -> str:
    """Return what is not clean after a run, behind its state; "" if nothing of it is left."""
    return ", not proven clean" if outcome.unproven else ", not clean" if outcome.leftovers else ""


def row(report: "RunReport", now: float) -> tuple[str, ...]:
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


def part_cell(report: "RunReport") -> str:
    """Return the job of several roles and the part of it that a run is: "7f3a9c01 rollout.0"; "" for others."""
    part = report.record.plan.job.part
    return "" if part is None else f"{part.job} {part.name}"


def slurm_cell(report: "RunReport") -> str:
    """Return the Slurm jobs of a run, with the states that are known: "12 RUNNING"; "" for a run without."""
    jobs = report.record.plan.slurm_jobs
    return ", ".join(f"{job} {report.jobs[job].state}" if job in report.jobs else job for job in jobs)


def moment(time: float) -> str:
    """Return a time in the zone of this machine, to the second."""
    return in_utc(time).astimezone().isoformat(sep=" ", timespec="seconds")


def duration(seconds: float) -> str:
    """Return a duration in two units at most: "7 s", "3 min 20 s", "2 h 5 min"; "?" where the clock was set back."""
    whole = round(seconds)
    if whole < 0:
        return "?"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def counted(number: int, noun: str) -> str:
    """ "1 rank", "6 ranks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
