"""`pylaunch stop`: end runs and prove that nothing of them is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import click

from pylaunch.cli import console
from pylaunch.cli.flags import options
from pylaunch.cli.flags.resolve_run import discovered, find
from pylaunch.cli.views import document, proving, run_data
from pylaunch.cli.views.live import Live, show_proof
from pylaunch.errors import ClusterNotReadyError, ExitCode, PylaunchError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.launch.existing.attach import stop
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Outcome
from pylaunch.model.run import RunRecord
from pylaunch.store import runs
from pylaunch.transport.process import ends, interrupt
from pylaunch.workflows.runs import adopt_runs

GIVES_UP_S = 30.0
"""A start that is told to give up may just have begun, and then has to end its ranks."""

ENDS_S = 10.0
"""What a controller that follows the run may take to notice its end."""


@click.command()
@options.run
@options.nodes_know
@click.option("--all", "everything", is_flag=True, help="Every run that is not known to have ended.")
@click.option("--now", is_flag=True, help="SIGKILL at once instead of SIGTERM and the run's grace period.")
@options.as_json
def command(run: str | None, *, inventory: Path | None, everything: bool, now: bool, as_json: bool) -> int:
    """Stop RUN (the only live one without) on all of its nodes, and prove that they are clean.

    RUN means all of its attempts, RUN.1 only the first restart.
    """
    if everything and run is not None:
        raise UsageError(f"--all and run {run}: one of them", hint=f"pylaunch stop {run}")
    if not everything:
        return _stop_run(find(run, inventory), now=now, one=run is not None and "." in run)
    if inventory is not None:
        adopt_runs(discovered(load_cluster(inventory)), past=False)
    records = [record for record in runs.readable(console.say) if _may_be_there(record)]
    if not records:
        console.say("no run is live")
    return _stop_each(records, now=now)


def _may_be_there(record: RunRecord) -> bool:
    return record.outcome is None or bool(record.outcome.unproven or record.outcome.leftovers)


def _stop_run(last: RunRecord, *, now: bool, one: bool) -> int:
    """Stop `last`, and where not only `one` attempt is meant, what may be left of those before it."""
    before = [] if one else [runs.read(each) for each in runs.attempts(last.plan.run) if each != last.plan.run]
    return _stop_each([last, *filter(_may_be_there, before)], now=now)


def _stop_each(records: Sequence[RunRecord], *, now: bool) -> int:
    failed = []
    ended: list[dict[str, object]] = []
    for record in records:
        entry: dict[str, object] = {"run": record.plan.run, "unreachable": None, "outcome": None}
        ended.append(entry)
        try:
            outcome = _stop(record, now=now)
            entry["outcome"] = run_data.outcome(record.plan, outcome)
            _must_be_proven(record, outcome)
        except ClusterNotReadyError as error:
            if entry["outcome"] is None:
                entry["unreachable"] = error.message
            failed.append(error)
    document.show({"runs": ended})
    if failed and len(records) == 1:
        raise failed[0]
    if failed:
        raise _together(failed, len(records))
    return ExitCode.DONE


def _together(failed: list[ClusterNotReadyError], of: int) -> PylaunchError:
    return ClusterNotReadyError(
        f"{len(failed)} of {of} runs are not known to have ended",
        evidence=[line for error in failed for line in (error.message, *error.evidence)],
        hint="when their nodes can be reached again: pylaunch stop --all",
    )


def _stop(record: RunRecord, *, now: bool) -> Outcome:
    """How the run ended: as it is recorded where it is over, else what its nodes report now."""
    runs.ask_to_stop(record.plan.run)
    record = _given_up(record)
    if record.outcome is not None and not _may_be_there(record):
        console.say(f"run {record.plan.run} is over: {record.outcome.reason}")
        return record.outcome
    recorder = runs.Recorder(record.plan.run, console.say)
    is_in_charge = recorder.take_charge()
    watcher = Live(record.plan, recorder if is_in_charge else None)
    outcome, proofs = stop(record, watcher, timedelta(0) if now else record.plan.job.stop_grace)
    if proofs and not is_in_charge:
        # Whoever is in charge sees the end of the run now, and knows nothing of what the nodes have shown.
        process = runs.controller(record.plan.run)
        is_in_charge = (process is None or ends(process, ENDS_S)) and recorder.take_charge()
        record = runs.read(record.plan.run)
    if is_in_charge:
        recorder.finish(_with_proof(record.outcome, outcome))
    stopped = [host for host in record.plan.cluster.names if host not in {*outcome.unproven, *outcome.leftovers}]
    if stopped:
        console.say(f"run {record.plan.run} stopped on {fold(stopped)}")
    proving.show(record.plan.run, proofs)
    show_proof(record.plan, outcome)
    return outcome


def _must_be_proven(record: RunRecord, outcome: Outcome) -> None:
    """Raises ClusterNotReadyError for hosts that have not shown that they are clean."""
    if outcome.unproven:
        raise ClusterNotReadyError(
            f"{fold(outcome.unproven)} could not be asked",
            hint=f"when reachable again: pylaunch stop {record.plan.run}",
        )
    if outcome.leftovers:
        raise ClusterNotReadyError(
            f"processes of run {record.plan.run} are left on {fold(outcome.leftovers)}",
            evidence=[f"{host}: {each}" for host, left in outcome.leftovers.items() for each in left],
            hint=f"pylaunch stop --now {record.plan.run}",
        )


def _given_up(record: RunRecord) -> RunRecord:
    """A run that is still being started, or waits for its turn, after its controller here has given that up: its nodes
    may know nothing of it yet. Others as they are."""
    run, process = record.plan.run, runs.controller(record.plan.run)
    if process is None or record.has_started or record.outcome is not None:
        return record
    console.say(f"run {run} has not started yet; process {process}, which starts it, is to give up")
    if not interrupt(process, GIVES_UP_S):
        raise ClusterNotReadyError(
            f"process {process}, which starts run {run}, has not ended within {GIVES_UP_S:.0f} s",
            hint=f"kill -KILL {process}; pylaunch stop {run}",
        )
    return runs.read(run)


def _with_proof(known: Outcome | None, proven: Outcome) -> Outcome:
    """How the run ended, which stays what it is `known` to be, with what is now `proven` of its nodes."""
    return proven if known is None else replace(known, leftovers=proven.leftovers, unproven=proven.unproven)
