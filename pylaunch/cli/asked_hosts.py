"""Hosts of the inventory, for verbs that start no ranks, and as the nodes of a start."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pylaunch import features
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.model.job import JobSpec
from pylaunch.terminal.doors import NodesWanted, StartNodes


def hosts_to_ask(inventory: Path | None, limit: str | None) -> Cluster:
    """Return the hosts to ask, by the same rule as for a start: those among which pylaunch runs, or the inventory's.

    Raises UsageError for hosts and devices of an inventory that are not among them.
    """
    here = features.hosts_here(inventory, limit)
    return load_cluster(inventory, limit=limit) if here is None else here


class InventorySource:
    """The hosts of the inventory as the nodes of a start."""

    is_inventory = True

    @contextlib.contextmanager
    def nodes(self, wanted: NodesWanted, job: JobSpec) -> Iterator[StartNodes]:
        """Provide the hosts. Raises InventoryError."""
        yield StartNodes(load_cluster(wanted.inventory, limit=wanted.limit))
