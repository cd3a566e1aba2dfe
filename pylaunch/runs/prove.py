"""Prove that nodes of runs that are over are clean, where the agent of the run could not."""

from collections.abc import Callable, Mapping

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.notes import Notes, ignore
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import RunRecord
from pylaunch.runs.existing import proof
from pylaunch.runs.existing.proof import NodeProof
from pylaunch.runs.follow.run_events import Notice
from pylaunch.store import runs


@dataclass(frozen=True)
class ProvenRun:
    """A run that is over, with the answers of the nodes that were asked again."""

    run: str
    outcome: Outcome
    proofs: Mapping[str, NodeProof]


def is_in_doubt(outcome: Outcome) -> bool:
    """Return True if processes, ports or leases of a run that is over may still exist on a host."""
    return bool(outcome.unproven or outcome.leftovers)


def finish(plan: RunPlan, outcome: Outcome, recorder: runs.Recorder, emit: Callable[[Notice], None]) -> Outcome:
    """Record that a run of this controller is over, and return its outcome.

    First as it is: what follows may take long, or be interrupted. On hosts that answer and have lost the agent of the
    run, end its other processes: the kernel ended the ranks with their agent, and not the children of the ranks. Nodes
    of a Slurm job that has ended are proven clean by Slurm.
    """
    recorder.finish(outcome)
    if outcome.unproven and (by_slurm := proof.of_ended_jobs(plan.cluster.only(outcome.unproven))):
        outcome = _with_proofs(outcome, by_slurm)
        recorder.finish(outcome)
    if not outcome.answering:
        return outcome
    emit(Notice(f"ending what the run left on {fold(outcome.answering)}"))
    grace = plan.job.stop_grace if outcome.by_hand else plan.job.failure_grace
    began = None if outcome.status is Status.REFUSED else outcome.ended_at
    proofs = proof.end(plan, outcome.answering, grace.total_seconds(), began)
    for host, each in proofs.items():
        if each.found or each.reason is not None:
            emit(Notice(f"{host}: {each.words}"))
    after = _with_proofs(outcome, proofs)
    recorder.finish(after)
    return after


def proven(outcome: Outcome, proofs: Mapping[str, NodeProof]) -> Outcome:
    """Add the answers of nodes to `outcome`. A run is lost, not stopped, when nothing of it was there any more."""
    known = {host: left for host, left in outcome.leftovers.items() if host not in proofs}
    after = replace(
        outcome,
        leftovers=known | {host: each.left for host, each in proofs.items() if each.left},
        unproven=tuple(host for host in outcome.unproven if host not in proofs or proofs[host].reason is not None),
    )
    was_over = proofs and all(each.is_clean and not each.found for each in proofs.values())
    if outcome.by_hand and was_over and not any(end.stopped for end in outcome.ends):
        host, first = next(iter(proofs.items()))
        return replace(after, status=Status.FAILED, reason=f"{host}: {first.words}", by_hand=False)
    return after


def _with_proofs(outcome: Outcome, proofs: Mapping[str, NodeProof]) -> Outcome:
    shown = proven(replace(outcome, by_hand=False), proofs)
    return replace(outcome, leftovers=shown.leftovers, unproven=shown.unproven)


def prove_again(record: RunRecord, outcome: Outcome, on_note: Notes = ignore) -> ProvenRun:
    """Ask the nodes that have not proven that they are clean. Ends nothing; records their answers."""
    proofs = proof.leftover_processes(record, {*outcome.unproven, *outcome.leftovers})
    after = _with_proofs(outcome, proofs)
    if after != outcome and runs.controller(record.plan.run) is None:
        runs.Recorder(record.plan.run, on_note).finish(after)
    return ProvenRun(record.plan.run, after, proofs)


def prove_runs(cluster: Cluster, on_note: Notes = ignore) -> list[ProvenRun]:
    """Ask again for every recorded run that is over and that some hosts have not been proven clean of.

    Hosts with the same names at other addresses are those of another inventory.
    """
    asked = {(host.name, host.address) for host in cluster.hosts}
    return [
        prove_again(record, record.outcome, on_note)
        for record in runs.readable(ignore)
        if record.outcome is not None
        and asked.intersection(
            (host.name, host.address)
            for host in record.plan.cluster.only({*record.outcome.unproven, *record.outcome.leftovers}).hosts
        )
    ]
