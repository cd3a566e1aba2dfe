"""`pylaunch stop`: end runs and prove that nothing of them is left."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from pylaunch import features
from pylaunch.errors import ClusterNotReadyError, ExitCode, PylaunchError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.model.hostset import fold
from pylaunch.model.plan import RunPlan, base_of
from pylaunch.model.run import RunRecord
from pylaunch.model.slurm_job import JobState
from pylaunch.model.text.argv import pylaunch
from pylaunch.runs.all_runs import Discovery, adopt_runs
from pylaunch.runs.status import slurm_states
from pylaunch.runs.stop import StopReport, stop_run, unfinished_runs, with_earlier_attempts
from pylaunch.terminal import console, document, options
from pylaunch.terminal.flags.resolve_run import discovered, find_each
from pylaunch.terminal.views import run_data
from pylaunch.terminal.views.live import Live
from pylaunch.terminal.views.outcome import show_proof
from pylaunch.terminal.views.processes import show_proofs
from pylaunch.transport.interrupts import signals


@click.command()
@options.run
@options.nodes_know
@click.option("--all", "everything", is_flag=True, help="Every run that is not known to have ended.")
@click.option("--now", is_flag=True, help="SIGKILL at once instead of SIGTERM and the run's grace period.")
@options.as_json
def command(run: str | None, *, inventory: Path | None, everything: bool, now: bool, as_json: bool) -> int:
    """Stop RUN (the only live one without) on all of its nodes, and prove that they are clean.

    RUN means all of its attempts, RUN.1 only the first restart. RUN may be a job of several roles: those that use
    others stop first, the services last.
    """
    if everything and run is not None:
        raise UsageError(f"--all is every run, and {run} is one: omit one of them", hint="pylaunch stop --all")
    if not everything:
        last = find_each(run, inventory)
        is_one_attempt = run is not None and "." in run
        named = last if is_one_attempt else [each for one in last for each in with_earlier_attempts(one)]
        return _stop_each(named, now=now, again=pylaunch("stop", run or base_of(last[0].plan.run)))
    found = Discovery((), frozenset(), {})
    if inventory is not None:
        found = discovered(load_cluster(inventory))
        adopt_runs(found, past=False)
    records = sorted(map(found.reached, unfinished_runs(console.say)), key=_stop_order)
    if not records:
        console.say("no run is live")
    return _stop_each(records, now=now, again=pylaunch("stop", "--all"))


def _stop_order(record: RunRecord) -> int:
    return 0 if record.plan.job.part is None else record.plan.job.part.stop_order


def _stop_each(records: Sequence[RunRecord], *, now: bool, again: str) -> int:
    """Stop `records` one after the other; `again` is the command that stops the same runs."""
    failed = []
    ended: list[dict[str, object]] = []
    for record in records:
        entry: dict[str, object] = {"run": record.plan.run, "unreachable": None, "outcome": None}
        ended.append(entry)
        try:
            report = _stop(record, now=now)
            entry["outcome"] = run_data.outcome(record.plan, report.outcome)
            report.raise_if_unclean()
        except ClusterNotReadyError as error:
            if entry["outcome"] is None:
                entry["unreachable"] = error.message
            failed.append(error)
    states = _end_jobs([record.plan for record in records])
    for record, entry in zip(records, ended, strict=True):
        entry["slurm_jobs"] = run_data.slurm_jobs(record.plan, states)
    document.show({"runs": ended})
    if failed and len(records) == 1:
        raise failed[0]
    if failed:
        raise _together(failed, len(records), again)
    return ExitCode.DONE


def _end_jobs(plans: Sequence[RunPlan]) -> Mapping[str, JobState]:
    """End the Slurm jobs that pylaunch submitted for the runs; name others that continue. Return the states of all."""
    submitted = {plan.submitted_job: plan for plan in plans if plan.submitted_job is not None}
    for plan in submitted.values():
        features.end_nodes(plan, None)
    states = slurm_states(plans, console.say)
    for job, state in states.items():
        if job not in submitted and not state.is_over:
            console.say(f"Slurm job {job} continues: pylaunch did not submit it (scancel {job} ends it)")
    return states


def _together(failed: list[ClusterNotReadyError], of: int, again: str) -> PylaunchError:
    return ClusterNotReadyError(
        f"{len(failed)} of {of} runs are not known to have ended",
        evidence=[line for error in failed for line in (error.message, *error.evidence)],
        hint=f"when their nodes can be reached again: {again}",
    )


def _stop(record: RunRecord, *, now: bool) -> StopReport:
    live = Live(record.plan)
    report = stop_run(record, live.show, signals, now=now)
    run, outcome = record.plan.run, report.outcome
    if report.was_over:
        console.say(f"run {run} is over: {outcome.reason}")
        return report
    if report.clean:
        console.say(f"run {run} stopped on {fold(report.clean)}")
    show_proofs(run, report.proofs)
    show_proof(record.plan, outcome, said=report.proofs)
    return report
