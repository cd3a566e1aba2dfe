"""The nodes of a start, and the hosts of other verbs in a Slurm job."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.cli.job_here import JobHere, StartSource
from pylaunch.cli.views import queueing
from pylaunch.errors import UsageError
from pylaunch.features import judge_settings
from pylaunch.inventory import load_cluster
from pylaunch.inventory.limit import limited
from pylaunch.inventory.load import source_of
from pylaunch.model.argv import quoted
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.hostset import fold
from pylaunch.model.job import JobSpec
from pylaunch.model.slurm_job import JobRequest
from pylaunch.terminal import console
from pylaunch.terminal.flags import scheduler
from pylaunch.terminal.flags.scheduler import JOB_ID, RESTART_COUNT, NodeSource
from pylaunch.terminal.flags.start import StartFlags
from pylaunch.workflows.allocation import Allocation, allocate, allocation_here
from pylaunch.workflows.requeue import JobRequeues, continued
from pylaunch.workflows.start import PlannedRun, plan_start, planned_run


@dataclass(frozen=True)
class StartNodes:
    """Nodes of a start."""

    cluster: Cluster
    allocation: Allocation | None = None
    """The Slurm job whose nodes they are."""

    restarts: int = 0
    """Number of times that Slurm has requeued the job in which pylaunch runs."""

    def recorded_in(self, planned: PlannedRun) -> PlannedRun:
        """Return `planned` with the id of a job that pylaunch submitted."""
        if self.allocation is None or not self.allocation.job.is_ours:
            return planned
        return replace(planned, plan=replace(planned.plan, submitted_job=self.allocation.job.id))

    def continued(self, planned: PlannedRun, note: Callable[[str], None]) -> PlannedRun:
        """Return `planned` as the next attempt of a run whose job Slurm has requeued; else as it is."""
        allocation, restarts = self.allocation, self.restarts
        if allocation is None or not restarts:
            return planned
        return planned_run(continued(planned.plan, allocation.job.id, restarts, note))

    def requeues(self, job: JobSpec) -> JobRequeues | None:
        """Return the requeues of the job, if `job` permits any."""
        if self.allocation is None or not job.max_requeues:
            return None
        return JobRequeues(self.allocation, self.restarts)

    def end(self, is_good: bool) -> None:
        """End the job, if pylaunch submitted it."""
        if self.allocation is not None:
            self.allocation.end(is_good=is_good)


@contextlib.contextmanager
def nodes_of_start(
    flags: StartFlags, source: StartSource, inventory: Path | None, limit: str | None, job: JobSpec
) -> Iterator[StartNodes]:
    """Provide the nodes for this block, which plans; an exception in it ends a job that was submitted.

    Raises UsageError for an inventory with hosts outside of the Slurm job, and before it submits one for a `job` that
    cannot be planned on any nodes.
    """
    if source.kind is NodeSource.INVENTORY:
        yield StartNodes(load_cluster(inventory, limit=limit))
        return
    if source.asked is not None:
        yield _here(source.asked.result(), flags, inventory, limit)
        return
    if limit is not None:
        raise UsageError(f"--limit {limit}: Slurm chooses the nodes", hint="--sbatch-arg=--nodelist=n1,n2")
    wanted = scheduler.request(flags, source.settings, flags.nodes, flags.spares)
    if flags.dry_run:
        console.say(f"with --dry-run no job is submitted; its options: {quoted(('sbatch', *wanted.options))}")
        yield StartNodes(_unknown_nodes(wanted))
        return
    plan_start(_unknown_nodes(wanted), job, judge_settings, lambda event: None)
    allocation = allocate(wanted, queueing.show)
    try:
        yield StartNodes(allocation.cluster, allocation)
    except BaseException:
        allocation.end(is_good=False)
        raise


def _unknown_nodes(wanted: JobRequest) -> Cluster:
    return Cluster(tuple(Host(f"node{each + 1}", f"node{each + 1}", Connection.NONE) for each in range(wanted.nodes)))


def _check_size(flags: StartFlags, allocation: Allocation) -> None:
    """Raise UsageError for a job with fewer nodes than the flags request."""
    there, wanted = allocation.cluster.names, (flags.nodes or 1) + flags.spares
    if wanted > len(there):
        raise UsageError(
            f"--nodes {flags.nodes or 1} and --spares {flags.spares} need {wanted} nodes, and Slurm job "
            f"{allocation.job.id} has {len(there)} ({fold(there)})",
            hint=f"--nodes {max(1, len(there) - flags.spares)}, or a larger allocation",
        )


def _here(here: JobHere, flags: StartFlags, inventory: Path | None, limit: str | None) -> StartNodes:
    """Return the nodes of the job in which pylaunch runs, as far as an inventory or `limit` selects them."""
    for event in here.events:
        queueing.show(event)
    allocation = replace(here.allocation, emit=queueing.show)
    _check_size(flags, allocation)
    named = inventory if inventory is not None or flags.scheduler == scheduler.SLURM else source_of(None)
    without = f"--scheduler {scheduler.SLURM} without -i"
    over_ssh = f"--scheduler {scheduler.NONE}"
    cluster = _selected(allocation, named, limit, (without, over_ssh))
    return StartNodes(cluster, allocation, _restarts(os.environ))


def hosts_of_job(inventory: Path | None, limit: str | None) -> Cluster:
    """Return the nodes of the job in which pylaunch runs, for a verb that starts no ranks.

    As for a start, hosts of an inventory must be in the job. Raises UsageError for hosts and devices that are not.
    """
    allocation = allocation_here(scheduler.jobs_here(os.environ), scheduler.nodes_here(os.environ), queueing.show)
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
