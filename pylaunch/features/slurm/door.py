"""Door to the command line: options of a start, the source of its nodes, the hosts of other verbs, the end of a job."""

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pylaunch.base.dataclass import fields
from pylaunch.features.slurm.flags import OPTIONS as OPTIONS
from pylaunch.features.slurm.flags import NodeSource, SchedulerFlags, node_source
from pylaunch.inventory.settings import read_settings
from pylaunch.terminal.document import current
from pylaunch.terminal.doors import imported

if TYPE_CHECKING:
    from pylaunch.model.cluster import Cluster
    from pylaunch.model.outcome import Outcome
    from pylaunch.model.plan import RunPlan
    from pylaunch.terminal.doors import StartSource


def start_source(given: MutableMapping[str, Any], *, has_inventory: bool) -> "StartSource":
    """Take the values of OPTIONS out of `given`, the options of a start, and return the source of its nodes.

    In a Slurm job, begin to ask Slurm and to start the agents there. Raises UsageError for a contradiction.
    """
    flags = SchedulerFlags(**{each.name: given.pop(each.name) for each in fields(SchedulerFlags)})
    source: StartSource = imported("pylaunch.features.slurm.job_here").source_of_start(
        flags, has_inventory=has_inventory, starts_agents=not given["dry_run"]
    )
    current().has_slurm_nodes = not source.is_inventory
    return source


def hosts_here(inventory: Path | None, limit: str | None) -> "Cluster | None":
    """Return the hosts of the job in which pylaunch runs, by the same rule as for a start; None outside of one.

    Raises UsageError for hosts and devices of an inventory that are not in the job.
    """
    settings = read_settings(Path.cwd())
    source = node_source(SchedulerFlags(), settings, os.environ, has_inventory=inventory is not None)
    if source is not NodeSource.HERE:
        return None
    current().has_slurm_nodes = True
    hosts: Cluster = imported("pylaunch.features.slurm.nodes").hosts_of_job(inventory, limit)
    return hosts


def end_nodes(plan: "RunPlan", outcome: "Outcome | None") -> None:
    """End the job that was submitted for the run of `plan`, whose first controller has ended; None: a person does."""
    if plan.submitted_job is not None:
        imported("pylaunch.features.slurm.nodes").end_submitted_for(plan.submitted_job, outcome)
