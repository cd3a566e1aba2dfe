"""Door to the command line: options of a start, the source of its nodes, the hosts of other verbs, the end of a job."""

import os
from collections.abc import Mapping, MutableMapping
from contextlib import AbstractContextManager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pylaunch.base.dataclass import dataclass, fields
from pylaunch.errors import UsageError
from pylaunch.features import imported
from pylaunch.model.slurm_job import JobRequest
from pylaunch.model.text.argv import Argv
from pylaunch.terminal.doors import NodesWanted, StartNodes, StartSource
from pylaunch.terminal.options import Group, InJobFile, Option, current

if TYPE_CHECKING:
    from pylaunch.model.cluster import Cluster
    from pylaunch.model.job import JobSpec
    from pylaunch.model.outcome import Outcome
    from pylaunch.model.plan import RunPlan

AUTO, NONE, SLURM = "auto", "none", "slurm"
JOB_ID = "SLURM_JOB_ID"
STEP_TASKS = "SLURM_STEP_NUM_TASKS"
PTY = "SLURM_PTY_PORT"
"""Set in the step of a shell (srun --pty), which runs in one of its tasks only."""

COMPONENTS = "SLURM_HET_SIZE"
"""Number of components of a heterogeneous job; absent in others."""

OPTIONS = (
    Option(
        name="scheduler", group=Group.SLURM, choices=(AUTO, SLURM, NONE), default=AUTO, in_job_file=InJobFile.WHOLE,
        help="slurm submits a job and starts on its nodes; auto: in a Slurm job its nodes, else the inventory's hosts.",
    ),
    Option(
        name="partition", group=Group.SLURM, metavar="NAME", in_job_file=InJobFile.NONE,
        help="Slurm: partition.",
    ),
    Option(
        name="time", group=Group.SLURM, metavar="TIME", in_job_file=InJobFile.NONE,
        help="Slurm: time limit, such as 4:00:00 or 2-00:00:00.",
    ),
    Option(
        name="sbatch_arg", group=Group.SLURM, multiple=True, default=(), metavar="OPTION",
        in_job_file=InJobFile.NONE,
        help="Slurm: a further option of sbatch, --mem=0. Repeatable.",
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SchedulerFlags:
    """Values of OPTIONS."""

    scheduler: str = AUTO
    partition: str | None = None
    time: str | None = None
    sbatch_arg: tuple[str, ...] = ()


class NodeSource(Enum):
    """Sources of the nodes of a start."""

    INVENTORY = "inventory"
    SUBMIT = "submit"
    """A Slurm job that this start submits."""

    HERE = "here"
    """The Slurm job in which pylaunch runs."""


_OF_SBATCH = tuple(each.name for each in fields(SchedulerFlags) if each.name != "scheduler")


def node_source(flags: SchedulerFlags, environment: Mapping[str, str], *, has_inventory: bool) -> NodeSource:
    """Return where the nodes of a start are from; `has_inventory` says that the command line names one.

    Raises UsageError for flags that contradict each other, and in a job that pylaunch cannot use.
    """
    typed = [f"--{name.replace('_', '-')}" for name in _OF_SBATCH if getattr(flags, name)]
    job = environment.get(JOB_ID)
    if flags.scheduler == NONE or (flags.scheduler == AUTO and not job):
        if typed:
            raise UsageError(f"{typed[0]} has no effect without Slurm", hint="--scheduler slurm")
        return NodeSource.INVENTORY
    if not job:
        if has_inventory:
            raise UsageError(
                "--scheduler slurm together with an inventory: Slurm chooses the nodes of a job that pylaunch submits",
                hint="omit the inventory, or name the nodes: --sbatch-arg=--nodelist=n1,n2",
            )
        return NodeSource.SUBMIT
    if typed:
        raise UsageError(
            f"{typed[0]} has no effect in Slurm job {job}, whose nodes are there already",
            hint=f"omit it, or submit another job: env -u {JOB_ID} pylaunch start --scheduler slurm …",
        )
    if environment.get(STEP_TASKS, "1") != "1" and PTY not in environment:
        raise UsageError(
            f"srun starts pylaunch {environment[STEP_TASKS]} times in Slurm job {job}, and each would start the run",
            hint="omit srun: pylaunch itself starts the ranks on all nodes of the job",
        )
    if environment.get(COMPONENTS, "1") != "1":
        raise UsageError(
            f"Slurm job {job} is heterogeneous, and a run has the nodes of a job with one component",
            hint="one component in salloc or sbatch, or connect over SSH: --scheduler none",
        )
    return NodeSource.HERE


def request(flags: SchedulerFlags, nodes: int | None, spares: int) -> JobRequest:
    """Return the job to submit. Raises UsageError without a number of nodes, and for words that are no options."""
    if nodes is None or nodes < 1:
        raise UsageError("--scheduler slurm needs the number of nodes", hint="--nodes 4")
    if spares < 0:
        raise UsageError("--spares: expected 0 or more")
    return JobRequest(nodes + spares, options=_sbatch_options(flags))


def _sbatch_options(flags: SchedulerFlags) -> Argv:
    named = {"partition": flags.partition, "time": flags.time}
    if wrong := [word for word in flags.sbatch_arg if not word.startswith("-")]:
        raise UsageError(f"--sbatch-arg {wrong[0]}: expected an option of sbatch", hint="--sbatch-arg=--mem=0")
    if signals := [word for word in flags.sbatch_arg if word.partition("=")[0] == "--signal"]:
        raise UsageError(
            f"--sbatch-arg {signals[0]}: Slurm would signal the agents of pylaunch, not the ranks",
            hint="a job script with it, which ends with: exec pylaunch start … (pylaunch help slurm)",
        )
    return (*(f"--{name}={value}" for name, value in named.items() if value is not None), *flags.sbatch_arg)


@dataclass(frozen=True)
class SlurmSource:
    """The nodes of a start in a Slurm job, as its flags choose them."""

    kind: NodeSource
    flags: SchedulerFlags

    def nodes(self, wanted: NodesWanted, job: "JobSpec") -> AbstractContextManager[StartNodes]:
        """Provide the nodes for a block, which plans; see `nodes_of_start`."""
        provided: AbstractContextManager[StartNodes] = imported("pylaunch.features.slurm.nodes").nodes_of_start(
            self.kind, self.flags, wanted, job
        )
        return provided


def start_source(given: MutableMapping[str, Any], *, has_inventory: bool) -> StartSource | None:
    """Take the values of OPTIONS out of `given`, the options of a start, and return the source of its nodes; None for
    the inventory.

    Raises UsageError for a contradiction.
    """
    flags = SchedulerFlags(**{each.name: given.pop(each.name) for each in fields(SchedulerFlags)})
    kind = node_source(flags, os.environ, has_inventory=has_inventory)
    current().has_slurm_nodes = kind is not NodeSource.INVENTORY
    return None if kind is NodeSource.INVENTORY else SlurmSource(kind, flags)


def hosts_here(inventory: Path | None, limit: str | None) -> "Cluster | None":
    """Return the hosts of the job in which pylaunch runs, by the same rule as for a start; None outside of one.

    Raises UsageError for hosts and devices of an inventory that are not in the job.
    """
    if node_source(SchedulerFlags(), os.environ, has_inventory=inventory is not None) is not NodeSource.HERE:
        return None
    current().has_slurm_nodes = True
    hosts: Cluster = imported("pylaunch.features.slurm.nodes").hosts_of_job(inventory, limit)
    return hosts


def end_nodes(plan: "RunPlan", outcome: "Outcome | None") -> None:
    """End the job that was submitted for the run of `plan`, whose first controller has ended; None: a person does."""
    if plan.submitted_job is not None:
        imported("pylaunch.features.slurm.nodes").end_submitted_for(plan.submitted_job, outcome)
