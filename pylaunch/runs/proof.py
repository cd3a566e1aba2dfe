"""Prove that nodes are clean without their agent: it was killed or stopped, or the node restarted."""

import contextlib
from collections.abc import Callable, Iterable, Mapping

import msgspec

from pylaunch.agent.piped import cleanup
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import PylaunchError
from pylaunch.model.cluster import Cluster, Connection
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, Notes, RunRecord, ignore
from pylaunch.model.text import typed_json
from pylaunch.probe.ask import TIMEOUT_S, ask, parted
from pylaunch.probe.program import program
from pylaunch.protocol.readings.hosts import CleanupReading
from pylaunch.runs.events import notice
from pylaunch.store import runs
from pylaunch.transport.slurm import commands

LOOK_S = 15.0
"""Timeout of `look`, in seconds."""

STRANGER = (
    "no file of the run is there: it may be another machine (-i INVENTORY has the addresses of today), reinstalled, or"
    " have another pylaunch_node_root than at the start"
)
WORDS = 300
"""Characters that are kept of each text from a node."""


@dataclass(frozen=True)
class NodeProof:
    """Answer of one node."""

    ended: tuple[str, ...] = ()
    """Processes of the run that were ended."""

    left: tuple[str, ...] = ()
    """Processes of the run that are still there."""

    was_restarted: bool = False
    """The node was restarted since the run began there."""

    ended_job: str = ""
    """Id of the Slurm job that has ended, all processes of which Slurm has ended on this node."""

    reason: str | None = None
    """Reason why there is no answer; None for a node that answered."""

    @property
    def is_clean(self) -> bool:
        """The node answered, and no process of the run is left."""
        return self.reason is None and not self.left

    @property
    def words(self) -> str:
        """Description for a person."""
        if self.reason is not None:
            return f"not known to be clean: {self.reason}"
        if self.left:
            return f"left: {'; '.join(self.left)}"
        if self.ended:
            return f"ended: {'; '.join(self.ended)}"
        if self.ended_job:
            return f"Slurm job {self.ended_job} has ended, and Slurm has ended all of its processes there"
        since = "the node was restarted since the run began" if self.was_restarted else "no agent of the run is there"
        return f"{since}, and no process of it is left"


def leftover_processes(record: RunRecord, hosts: Iterable[str]) -> dict[str, NodeProof]:
    """Return the leftover processes of the run on `hosts`; end none of them."""
    return _ask(record.plan, hosts, LOOK_S, None, record.began)


def end(plan: RunPlan, hosts: Iterable[str], grace_s: float, began: float | None) -> dict[str, NodeProof]:
    """End all processes of the run on `hosts`: its agent, and every process that carries the mark of the run.

    `began`: a time of the run; None if no rank began. Where ranks began, a node without any file of the run proves
    nothing: it may be another machine.
    """
    return _ask(plan, hosts, TIMEOUT_S + grace_s, grace_s, began)


def _ask(
    plan: RunPlan, hosts: Iterable[str], timeout_s: float, grace_s: float | None, began: float | None
) -> dict[str, NodeProof]:  # fmt: skip
    wanted = plan.cluster.only(hosts)
    cluster = wanted.only(host.name for host in wanted.hosts if host.connection is not Connection.NONE)
    programs = {}
    for host in cluster.hosts:
        words = (host.node_root, plan.run, host.name)
        programs[host.name] = program(cleanup.of_run, *words, began=began or 0.0, grace_s=grace_s)
    answers, unreachable = parted(ask(cluster, programs, timeout_s), cluster)
    proofs = dict.fromkeys(wanted.names, NodeProof(reason="not in the inventory, so not connected to"))
    proofs |= {name: NodeProof(reason=why.reason) for name, why in unreachable.items()}
    proofs |= of_ended_jobs(cluster.only(unreachable))
    strangers = {name: None if began is None else f"{cluster[name].address}: {STRANGER}" for name in answers}
    return proofs | {name: _read(answer, strangers[name]) for name, answer in answers.items()}


def of_ended_jobs(cluster: Cluster) -> dict[str, NodeProof]:
    """Return the proofs of nodes whose Slurm job has ended, and whose slurmd has therefore ended its processes.

    A node that does not answer slurmctld proves nothing: its job ends without it.
    """
    found: dict[str, NodeProof] = {}
    by_job: dict[str, list[str]] = {}
    for host in cluster.hosts:
        if host.slurm_job is not None:
            by_job.setdefault(host.slurm_job, []).append(host.name)
    for job, names in by_job.items():
        with contextlib.suppress(PylaunchError):  # The reasons why the nodes were not reached say more.
            if commands.job_state(job).is_over:
                answering = [node.name for node in commands.nodes_of(",".join(names)) if node.answers]
                found |= dict.fromkeys(answering, NodeProof(ended_job=job))
    return found


def _read(answer: Mapping[str, object], stranger: str | None) -> NodeProof:
    try:
        found = typed_json.converted(answer, CleanupReading)
    except msgspec.ValidationError as error:
        return NodeProof(reason=f"its answer cannot be read: {error}")
    reason = found["error"][:WORDS] or (None if found["known"] else stranger)
    return NodeProof(_bounded(found["ended"]), _bounded(found["left"]), found["restarted"], reason=reason)


def _bounded(phrases: list[str]) -> tuple[str, ...]:
    return tuple(phrase[:WORDS] for phrase in phrases)


@dataclass(frozen=True)
class ProvenRun:
    """A run that is over, with the answers of the nodes that were asked again."""

    run: str
    outcome: Outcome
    proofs: Mapping[str, NodeProof]


def is_in_doubt(outcome: Outcome) -> bool:
    """Return True if processes, ports or leases of a run that is over may still exist on a host."""
    return bool(outcome.unproven or outcome.leftovers)


def finish(plan: RunPlan, outcome: Outcome, recorder: runs.Recorder, emit: Callable[[Event], None]) -> Outcome:
    """Record that a run of this controller is over, and return its outcome.

    First as it is: what follows may take long, or be interrupted. On hosts that answer and have lost the agent of the
    run, end its other processes: the kernel ended the ranks with their agent, and not the children of the ranks. Nodes
    of a Slurm job that has ended are proven clean by Slurm.
    """
    recorder.finish(outcome)
    if outcome.unproven and (by_slurm := of_ended_jobs(plan.cluster.only(outcome.unproven))):
        outcome = _with_proofs(outcome, by_slurm)
        recorder.finish(outcome)
    if not outcome.answering:
        return outcome
    emit(notice(f"ending what the run left on {fold(outcome.answering)}"))
    grace = plan.job.stop_grace if outcome.by_hand else plan.job.failure_grace
    began = None if outcome.status is Status.REFUSED else outcome.ended_at
    proofs = end(plan, outcome.answering, grace.total_seconds(), began)
    for host, each in proofs.items():
        if each.ended or each.left or each.reason is not None:
            emit(notice(f"{host}: {each.words}"))
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
    was_over = proofs and all(each.is_clean and not each.ended for each in proofs.values())
    if outcome.by_hand and was_over and not any(end.stopped for end in outcome.ends):
        host, first = next(iter(proofs.items()))
        return replace(after, status=Status.FAILED, reason=f"{host}: {first.words}", by_hand=False)
    return after


def _with_proofs(outcome: Outcome, proofs: Mapping[str, NodeProof]) -> Outcome:
    shown = proven(replace(outcome, by_hand=False), proofs)
    return replace(outcome, leftovers=shown.leftovers, unproven=shown.unproven)


def prove_again(record: RunRecord, outcome: Outcome, on_note: Notes = ignore) -> ProvenRun:
    """Ask the nodes that have not proven that they are clean. Ends nothing; records their answers."""
    proofs = leftover_processes(record, {*outcome.unproven, *outcome.leftovers})
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
