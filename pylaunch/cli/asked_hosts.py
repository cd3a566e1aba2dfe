"""The hosts of a verb that starts no ranks: those of the inventory, or of the Slurm job in which pylaunch runs."""

from __future__ import annotations

import os
from pathlib import Path

from pylaunch.inventory import load_cluster
from pylaunch.inventory.settings import read_settings
from pylaunch.model.cluster import Cluster
from pylaunch.terminal.flags import scheduler


def hosts_to_ask(inventory: Path | None, limit: str | None) -> Cluster:
    """Return the hosts to ask, by the same rule as for a start.

    Raises UsageError for hosts and devices of an inventory that are not in the job.
    """
    settings, flags = read_settings(Path.cwd()), scheduler.SchedulerFlags()
    source = scheduler.node_source(flags, settings, os.environ, has_inventory=inventory is not None)
    if source is not scheduler.NodeSource.HERE:
        return load_cluster(inventory, limit=limit)
    from pylaunch.cli import nodes  # noqa: PLC0415 -- the modules of a start, which only a verb in a job needs

    return nodes.hosts_of_job(inventory, limit)
