"""The nodes of a start, and the hosts of other verbs in a Slurm job."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from pylaunch.base.dataclass import replace
from pylaunch.errors import UsageError
from pylaunch.features import refuse_variables
from pylaunch.features.slurm import door as scheduler
from pylaunch.features.slurm.allocation import Allocation, allocate, allocation_here, end_submitted
from pylaunch.features.slurm.door import JOB_ID, NodeSource, SchedulerFlags
from pylaunch.inventory import load_cluster
from pylaunch.inventory.cluster import limited
from pylaunch.inventory.load import source_of
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.hostset import fold
from pylaunch.model.job import JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.run import ignore
from pylaunch.model.slurm_job import JobRequest
from pylaunch.model.text.argv import quoted
from pylaunch.render import plan_start
from pylaunch.store import runs
from pylaunch.terminal import console
from pylaunch.terminal.doors import NodesWanted, StartNodes


def _show(news: str) -> None:
    console.say(news)


@contextlib.contextmanager
def nodes_of_start(kind: NodeSource, flags: SchedulerFlags, wanted: NodesWanted, job: JobSpec) -> Iterator[StartNodes]:
    """Provide the nodes for this block, which plans; an exception in it ends a job that was submitted.

    Raises UsageError for an inventory with hosts outside of the Slurm job, and before it submits one for a `job` that
    cannot be planned on any nodes.
    """
    if kind is NodeSource.HERE:
        yield StartNodes(_here(flags, wanted))
        return
    if wanted.limit is not None:
        raise UsageError(f"--limit {wanted.limit}: Slurm chooses the nodes", hint="--sbatch-arg=--nodelist=n1,n2")
    asked = scheduler.request(flags, wanted.nodes, wanted.spares)
    if wanted.dry_run:
        words = quoted(("sbatch", f"--nodes={asked.nodes}", *asked.options))
        console.say(f"with --dry-run no job is submitted; its options: {words}")
        yield StartNodes(_unknown_nodes(asked))
        return
    refuse_variables(plan_start(_unknown_nodes(asked), job, runs.new_run_id(), ignore), ignore)
    allocation = allocate(asked, _show)
    try:
        yield StartNodes(allocation.cluster, allocation.job.id, lambda is_good: allocation.end(is_good=is_good))
    except BaseException:
        allocation.end(is_good=False)
        raise


def end_submitted_for(job_id: str, outcome: Outcome | None) -> None:
    """End the Slurm job that was submitted for a run whose first controller has ended; None: a person ends the run."""
    end_submitted(job_id, _show, is_good=outcome is not None and outcome.status is Status.DONE)


_GPUS = re.compile(r"--(?:gpus-per-node=|gres=(?:\S+,)?gpu:)(?:[A-Za-z][\w.-]*:)?(\d{1,4})(?:,\S+)?")
"""Options of sbatch that say how many GPUs each node has."""


def _unknown_nodes(wanted: JobRequest) -> Cluster:
    """Return the nodes of a job that was not submitted, with as many devices as its options request for each node."""
    count = next((int(found[1]) for option in wanted.options if (found := _GPUS.fullmatch(option))), 0)
    names = [f"node{each + 1}" for each in range(wanted.nodes)]
    return Cluster(tuple(Host(name, name, Connection.NONE, devices=tuple(range(count))) for name in names))


def _check_size(wanted: NodesWanted, allocation: Allocation) -> None:
    """Raise UsageError for a job with fewer nodes than the flags request."""
    there, needed = allocation.cluster.names, (wanted.nodes or 1) + wanted.spares
    if needed > len(there):
        raise UsageError(
            f"--nodes {wanted.nodes or 1} and --spares {wanted.spares} need {needed} nodes, and Slurm job "
            f"{allocation.job.id} has {len(there)} ({fold(there)})",
            hint=f"--nodes {max(1, len(there) - wanted.spares)}, or a larger allocation",
        )


def _here(flags: SchedulerFlags, wanted: NodesWanted) -> Cluster:
    """Return the nodes of the job in which pylaunch runs, as far as an inventory or a limit selects them.

    Their agents start, and end on their own without a run.
    """
    allocation = allocation_here(os.environ[JOB_ID], _show)
    _check_size(wanted, allocation)
    if not wanted.dry_run:
        allocation.start_agents()
    is_named = wanted.inventory is not None or flags.scheduler == scheduler.SLURM
    named = wanted.inventory if is_named else source_of(None)
    without = f"--scheduler {scheduler.SLURM} without -i"
    over_ssh = f"--scheduler {scheduler.NONE}"
    return _selected(allocation, named, wanted.limit, (without, over_ssh))


def hosts_of_job(inventory: Path | None, limit: str | None) -> Cluster:
    """Return the nodes of the job in which pylaunch runs, for a verb that starts no ranks.

    As for a start, hosts of an inventory must be in the job. Raises UsageError for hosts and devices that are not.
    """
    allocation = allocation_here(os.environ[JOB_ID], _show)
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
