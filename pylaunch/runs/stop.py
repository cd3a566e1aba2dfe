"""Stop runs, and prove that nothing of them is left."""

import os
import signal
from collections.abc import Callable, Mapping
from datetime import timedelta

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Outcome
from pylaunch.model.run import Notes, RunRecord, ignore
from pylaunch.model.text.argv import pylaunch
from pylaunch.probe.ask import TIMEOUT_S
from pylaunch.runs.attach import attach_all
from pylaunch.runs.connect.fleet import Fleet, on_fleet, raise_if_none
from pylaunch.runs.events import Emitter, RunEvent, notice, recording
from pylaunch.runs.follow.run_follower import RunFollower
from pylaunch.runs.proof import NodeProof, end, is_in_doubt, proven
from pylaunch.store import runs
from pylaunch.store.runs import user_and_host
from pylaunch.transport.interrupts import Interrupter, InterruptSource
from pylaunch.transport.process import ends

GIVES_UP_S = 30.0
"""For the controller of a run that has not started: its ranks may just have begun, and it has to end them."""

ENDS_S = 10.0
"""For the controller that follows the run, to notice its end."""


@dataclass(frozen=True)
class StopReport:
    """A run that was stopped, or was over before."""

    record: RunRecord
    outcome: Outcome
    was_over: bool = False
    """The run was over and known to be clean."""

    proofs: Mapping[str, NodeProof] = field(default_factory=dict)
    """Answers of nodes whose agent could not prove that they are clean, by host."""

    @property
    def clean(self) -> tuple[str, ...]:
        """Hosts that are proven clean."""
        return tuple(
            host
            for host in self.record.plan.cluster.names
            if host not in {*self.outcome.unproven, *self.outcome.leftovers}
        )

    def raise_if_unclean(self) -> None:
        """Raises ClusterNotReadyError for hosts that are not proven clean."""
        run, outcome = self.record.plan.run, self.outcome
        if outcome.unproven:
            raise ClusterNotReadyError(
                f"not known to be clean: {fold(outcome.unproven)}",
                hint=f"when these nodes answer again: pylaunch stop {run}",
            )
        if outcome.leftovers:
            raise ClusterNotReadyError(
                f"processes of run {run} are left on {fold(outcome.leftovers)}",
                evidence=[f"{host}: {each}" for host, left in outcome.leftovers.items() for each in left],
                hint=f"pylaunch stop --now {run}",
            )


def with_earlier_attempts(last: RunRecord) -> list[RunRecord]:
    """Return `last` and those attempts before it that may still have processes."""
    before = [runs.read(each) for each in runs.attempts(last.plan.run) if each != last.plan.run]
    return [last, *filter(may_have_processes, before)]


def unfinished_runs(on_note: Notes = ignore) -> list[RunRecord]:
    """Return all recorded runs that may still have processes, the newest first."""
    return [record for record in runs.readable(on_note) if may_have_processes(record)]


def may_have_processes(record: RunRecord) -> bool:
    """Report whether a run is not known to have ended, or not known to be clean."""
    return record.outcome is None or is_in_doubt(record.outcome)


def stop_run(
    record: RunRecord, emit: Callable[[RunEvent], None], interrupts: InterruptSource | None = None, *, now: bool
) -> StopReport:
    """Stop a run on all of its nodes; with `now` SIGKILL at once, without its grace period. No attempt follows it.

    Returns how the run ended: as it is recorded where it is over, else as its nodes report. Raises
    ClusterNotReadyError when no node can be reached, or the process that starts the run does not end.
    """
    recorder = runs.Recorder(record.plan.run, lambda text: emit(notice(text)))
    recorder.ask_to_stop()
    record = _interrupted_start(record, emit)
    if record.outcome is not None and not may_have_processes(record):
        return StopReport(record, record.outcome, was_over=True)
    leads = recorder.take_charge()
    grace = timedelta(0) if now else record.plan.job.stop_grace
    emit_run = recording(recorder if leads else None, emit)
    try:
        outcome, proofs = _stopped(record, emit_run, grace, Interrupter() if interrupts is None else interrupts)
        if proofs and not leads:
            # The controller records the end of the run now, and does not know the answers of the nodes.
            process = runs.controller(record.plan.run)
            is_over = process is None or (process not in (runs.ELSEWHERE, os.getpid()) and ends(process, ENDS_S))
            leads = is_over and recorder.take_charge()
            record = runs.read(record.plan.run)
        if leads:
            recorder.finish(_with_proof(record.outcome, outcome))
    finally:
        recorder.give_up_charge()
    return StopReport(record, outcome, proofs=proofs)


def _stopped(
    record: RunRecord, emit: Emitter, grace: timedelta, source: InterruptSource
) -> tuple[Outcome, Mapping[str, NodeProof]]:
    """End a run on every node that can be reached; return its outcome, and the answers of nodes that were asked again.

    A node is asked again when its agent cannot prove that the node is clean: killed, stopped, or gone. Raises
    ClusterNotReadyError when no node answers.
    """

    async def work(fleet: Fleet) -> tuple[Outcome, dict[str, str]]:
        follower = RunFollower(record.plan, fleet, emit, streams=[])
        reasons = await fleet.unless_interrupted(attach_all(fleet, record, follower))
        follower.order_stop(f"stopped with pylaunch stop by {user_and_host()}", grace)
        return await follower.follow(), reasons

    outcome, reasons = on_fleet(record.plan, record.agent, work, source=source)
    in_doubt = {*outcome.unproven, *outcome.leftovers}
    if not in_doubt:
        return outcome, {}
    most_s = TIMEOUT_S + grace.total_seconds()
    emit(notice(f"ending what the run left on {fold(in_doubt)}, for {most_s:.0f} s at most"))
    proofs = end(record.plan, in_doubt, grace.total_seconds(), record.began)
    silent = {name: proofs[name].reason or "" for name in reasons if proofs[name].reason is not None}
    raise_if_none(record, {name: reason or reasons[name] for name, reason in silent.items()})
    return proven(outcome, proofs), proofs


def _interrupted_start(record: RunRecord, emit: Callable[[RunEvent], None]) -> RunRecord:
    """Interrupt the controller of a run that has not started, whose nodes may not know the run yet; read its record.

    Returns other runs as they are.
    """
    run, process = record.plan.run, runs.controller(record.plan.run)
    if process is None or record.has_started or record.outcome is not None:
        return record
    if process == runs.ELSEWHERE:
        raise ClusterNotReadyError(
            f"run {run} is being started on another machine that shares the records of this one: {record.started_by}",
            hint=f"there: {pylaunch('stop', run)}",
        )
    emit(notice(f"run {run} has not started yet: interrupting process {process}, which starts it"))
    if not ends(process, GIVES_UP_S, after=signal.SIGINT):
        raise ClusterNotReadyError(
            f"process {process}, which starts run {run}, has not ended within {GIVES_UP_S:.0f} s",
            hint=f"kill -KILL {process}; pylaunch stop {run}",
        )
    return runs.read(run)


def _with_proof(known: Outcome | None, proven: Outcome) -> Outcome:
    """Return the outcome that is `known`, with the proofs of `proven`."""
    return proven if known is None else replace(known, leftovers=proven.leftovers, unproven=proven.unproven)
