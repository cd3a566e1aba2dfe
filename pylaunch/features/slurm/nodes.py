"""The nodes of a start, and the hosts of other verbs in a Slurm job."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pylaunch.base.dataclass import replace
from pylaunch.errors import UsageError
from pylaunch.features import judge_settings
from pylaunch.features.slurm import flags as scheduler
from pylaunch.features.slurm.allocation import Allocation, JobNews, allocate, allocation_here, end_submitted
from pylaunch.features.slurm.flags import JOB_ID, RESTART_COUNT, NodeSource, SchedulerFlags
from pylaunch.features.slurm.job_here import JobHere, SlurmSource
from pylaunch.features.slurm.requeue import JobRequeues, continued_run, not_requeued
from pylaunch.inventory import load_cluster
from pylaunch.inventory.limit import limited
from pylaunch.inventory.load import source_of
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.hostset import fold
from pylaunch.model.job import JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.slurm_job import JobRequest
from pylaunch.model.text.argv import quoted
from pylaunch.runs.start import PlannedRun, plan_start, planned_run
from pylaunch.terminal import console, hints
from pylaunch.terminal.doors import NodesWanted, StartNodes
from pylaunch.verdict.requeue import requeue_cause


def _show(news: JobNews) -> None:
    console.say(news.line)
    if news.hint:
        hints.say(news.hint)


@contextlib.contextmanager
def nodes_of_start(source: SlurmSource, wanted: NodesWanted, job: JobSpec) -> Iterator[StartNodes]:
    """Provide the nodes for this block, which plans; an exception in it ends a job that was submitted.

    Raises UsageError for an inventory with hosts outside of the Slurm job, and before it submits one for a `job` that
    cannot be planned on any nodes.
    """
    if source.kind is NodeSource.INVENTORY:
        yield StartNodes(load_cluster(wanted.inventory, limit=wanted.limit))
        return
    if source.asked is not None:
        yield _here(source.asked.result(), source.flags, wanted, job)
        return
    if wanted.limit is not None:
        raise UsageError(f"--limit {wanted.limit}: Slurm chooses the nodes", hint="--sbatch-arg=--nodelist=n1,n2")
    asked = scheduler.request(source.flags, source.settings, wanted.nodes, wanted.spares)
    if wanted.dry_run:
        console.say(f"with --dry-run no job is submitted; its options: {quoted(('sbatch', *asked.options))}")
        yield StartNodes(_unknown_nodes(asked))
        return
    plan_start(_unknown_nodes(asked), job, judge_settings, lambda event: None)
    allocation = allocate(asked, _show)
    try:
        yield _allocated(allocation.cluster, allocation, 0, job)
    except BaseException:
        allocation.end(is_good=False)
        raise


def _allocated(cluster: Cluster, allocation: Allocation, restarts: int, job: JobSpec) -> StartNodes:
    """Return `cluster`, nodes of a Slurm job that was requeued `restarts` times, for a start of `job`."""

    def recorded(planned: PlannedRun) -> PlannedRun:
        """Return the next attempt of a run whose job was requeued, and the id of a job that pylaunch submitted."""
        if restarts:
            planned = planned_run(continued_run(planned.plan, allocation.job.id, restarts, console.say))
        if not allocation.job.is_ours:
            return planned
        return replace(planned, plan=replace(planned.plan, submitted_job=allocation.job.id))

    requeues = JobRequeues(allocation, restarts) if job.max_requeues else None
    return StartNodes(cluster, recorded, requeues, lambda is_good: allocation.end(is_good=is_good))


def end_submitted_for(job_id: str, job: JobSpec, outcome: Outcome | None) -> None:
    """End the Slurm job that was submitted for a run whose first controller has ended; None: a person ends the run."""
    if outcome is not None and job.max_requeues and requeue_cause(outcome):
        _show(not_requeued(job_id, "the controller that would request it has ended"))
    end_submitted(job_id, _show, is_good=outcome is not None and outcome.status is Status.DONE)


def _unknown_nodes(wanted: JobRequest) -> Cluster:
    return Cluster(tuple(Host(f"node{each + 1}", f"node{each + 1}", Connection.NONE) for each in range(wanted.nodes)))


def _check_size(wanted: NodesWanted, allocation: Allocation) -> None:
    """Raise UsageError for a job with fewer nodes than the flags request."""
    there, needed = allocation.cluster.names, (wanted.nodes or 1) + wanted.spares
    if needed > len(there):
        raise UsageError(
            f"--nodes {wanted.nodes or 1} and --spares {wanted.spares} need {needed} nodes, and Slurm job "
            f"{allocation.job.id} has {len(there)} ({fold(there)})",
            hint=f"--nodes {max(1, len(there) - wanted.spares)}, or a larger allocation",
        )


def _here(here: JobHere, flags: SchedulerFlags, wanted: NodesWanted, job: JobSpec) -> StartNodes:
    """Return the nodes of the job in which pylaunch runs, as far as an inventory or a limit selects them."""
    for event in here.events:
        _show(event)
    allocation = replace(here.allocation, emit=_show)
    _check_size(wanted, allocation)
    is_named = wanted.inventory is not None or flags.scheduler == scheduler.SLURM
    named = wanted.inventory if is_named else source_of(None)
    without = f"--scheduler {scheduler.SLURM} without -i"
    over_ssh = f"--scheduler {scheduler.NONE}"
    cluster = _selected(allocation, named, wanted.limit, (without, over_ssh))
    return _allocated(cluster, allocation, _restarts(os.environ), job)


def hosts_of_job(inventory: Path | None, limit: str | None) -> Cluster:
    """Return the nodes of the job in which pylaunch runs, for a verb that starts no ranks.

    As for a start, hosts of an inventory must be in the job. Raises UsageError for hosts and devices that are not.
    """
    allocation = allocation_here(scheduler.jobs_here(os.environ), scheduler.nodes_here(os.environ), _show)
    named = inventory if inventory is not None else source_of(None)
    without = "-i " + quoted((f"{','.join(allocation.cluster.names)},",))
    return _selected(allocation, named, limit, (without, f"env -u {JOB_ID} pylaunch …"))


def _selected(allocation: Allocation, named: Path | None, limit: str | None, ways: tuple[str, str]) -> Cluster:
    """Return the nodes of a job that the inventory `named` and `limit` select; None is all nodes.

    `ways` are options for the nodes of the job alone, and for the inventory over SSH. Raises UsageError for hosts that
    are not in the job, and for devices of the inventory that the job does not have.
    """
    if named is None:
        return allocation.cluster if limit is None else limited(allocation.cluster, limit, {})
    chosen, job = load_cluster(named, limit=limit), allocation.job
    hint = f"the nodes of the job alone: {ways[0]}; the inventory over SSH: {ways[1]}"
    if outside := sorted(set(chosen.names) - set(allocation.cluster.names)):
        raise UsageError(
            f"the inventory {named} has {fold(chosen.names)}, and Slurm job {job.id} has "
            f"{fold(allocation.cluster.names)}: {fold(outside)} is not in the job",
            hint=hint,
        )
    hosts = tuple(_granted(host, allocation.cluster[host.name]) for host in chosen.hosts)
    differing = [host for host in chosen.hosts if set(host.devices) - set(_granted_devices(host, allocation))]
    if differing:
        raise UsageError(
            f"the inventory {named} gives runs devices that Slurm job {job.id} does not have",
            evidence=[
                f"{host.name}: devices {_listed(host.devices)}, and the job has "
                f"{_listed(allocation.cluster[host.name].devices)}"
                for host in differing
            ],
            hint=f"omit gpus= and devices= there, and runs use those of the job; {hint}",
        )
    return replace(chosen, hosts=hosts)


def _granted(host: Host, node: Host) -> Host:
    """Return `host` of an inventory, reached through the job of `node`, with the devices of the job."""
    return replace(
        host, connection=Connection.SLURM, slurm_job=node.slurm_job, slurm_gpus=node.slurm_gpus,
        devices=host.devices or node.devices, withholds_devices=node.withholds_devices,
    )  # fmt: skip


def _granted_devices(host: Host, allocation: Allocation) -> tuple[int, ...]:
    """Return the devices that a run may use on `host`: those of the inventory where Slurm manages none."""
    node = allocation.cluster[host.name]
    return node.devices if node.devices or node.withholds_devices else host.devices


def _listed(devices: tuple[int, ...]) -> str:
    return ",".join(map(str, devices)) or "none"


def _restarts(environment: Mapping[str, str]) -> int:
    """Return how often Slurm has requeued the job of this process: no variable is 0."""
    count = environment.get(RESTART_COUNT, "")
    return int(count) if count.isascii() and count.isdecimal() else 0
