"""Door to the command line: options of a start, the source of its nodes, the hosts of other verbs, the end of a job."""

import os
from collections.abc import MutableMapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pylaunch.base.dataclass import dataclass, fields
from pylaunch.features.slurm.flags import OPTIONS as OPTIONS
from pylaunch.features.slurm.flags import NodeSource, SchedulerFlags, node_source
from pylaunch.terminal.document import current
from pylaunch.terminal.doors import InventorySource, NodesWanted, StartNodes, StartSource, imported

if TYPE_CHECKING:
    from pylaunch.model.cluster import Cluster
    from pylaunch.model.job import JobSpec
    from pylaunch.model.outcome import Outcome
    from pylaunch.model.plan import RunPlan


@dataclass(frozen=True)
class SlurmSource:
    """The nodes of a start in a Slurm job, as its flags choose them."""

    is_inventory = False

    kind: NodeSource
    flags: SchedulerFlags

    def nodes(self, wanted: NodesWanted, job: "JobSpec") -> AbstractContextManager[StartNodes]:
        """Provide the nodes for a block, which plans; see `nodes_of_start`."""
        provided: AbstractContextManager[StartNodes] = imported("pylaunch.features.slurm.nodes").nodes_of_start(
            self.kind, self.flags, wanted, job
        )
        return provided


def start_source(given: MutableMapping[str, Any], *, has_inventory: bool) -> StartSource:
    """Take the values of OPTIONS out of `given`, the options of a start, and return the source of its nodes.

    Raises UsageError for a contradiction.
    """
    flags = SchedulerFlags(**{each.name: given.pop(each.name) for each in fields(SchedulerFlags)})
    kind = node_source(flags, os.environ, has_inventory=has_inventory)
    current().has_slurm_nodes = kind is not NodeSource.INVENTORY
    return InventorySource() if kind is NodeSource.INVENTORY else SlurmSource(kind, flags)


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
