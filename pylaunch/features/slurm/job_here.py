"""The source of the nodes of a start. In a Slurm job, its agents start while the modules of a start are imported."""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from pylaunch.base.dataclass import dataclass
from pylaunch.features.slurm import flags as scheduler
from pylaunch.features.slurm.flags import NodeSource, SchedulerFlags
from pylaunch.inventory.settings import Settings, read_settings
from pylaunch.model.job import JobSpec
from pylaunch.terminal.doors import InventorySource, NodesWanted, StartNodes, StartSource, imported

if TYPE_CHECKING:
    from pylaunch.features.slurm.allocation import Allocation, JobNews


@dataclass(frozen=True)
class JobHere:
    """The Slurm job in which pylaunch runs."""

    allocation: "Allocation"
    events: "tuple[JobNews, ...]"
    """To show when the nodes are used."""


@dataclass(frozen=True)
class SlurmSource:
    """The nodes of a start as its flags choose them, and the job in which pylaunch runs, which is being asked."""

    is_inventory = False

    kind: NodeSource
    flags: SchedulerFlags
    settings: Settings
    asked: Future[JobHere] | None = None

    def nodes(self, wanted: NodesWanted, job: JobSpec) -> AbstractContextManager[StartNodes]:
        """Provide the nodes for a block, which plans; see `nodes_of_start`."""
        provided: AbstractContextManager[StartNodes] = imported("pylaunch.features.slurm.nodes").nodes_of_start(
            self, wanted, job
        )
        return provided


def source_of_start(flags: SchedulerFlags, *, has_inventory: bool, starts_agents: bool) -> StartSource:
    """Return the source of the nodes of a start. In a Slurm job, begin to ask Slurm and to start the agents there.

    Without a run, the agents end on their own. Raises UsageError for flags that contradict each other.
    """
    settings = read_settings(Path.cwd())
    kind = scheduler.node_source(flags, settings, os.environ, has_inventory=has_inventory)
    if kind is NodeSource.INVENTORY:
        return InventorySource()
    if kind is not NodeSource.HERE:
        return SlurmSource(kind, flags, settings)
    jobs = scheduler.jobs_here(os.environ)
    thread = ThreadPoolExecutor(1, thread_name_prefix="Slurm")
    asked = thread.submit(_asked, jobs, starts_agents=starts_agents)
    thread.shutdown(wait=False)
    return SlurmSource(kind, flags, settings, asked)


def _asked(jobs: tuple[str, ...], *, starts_agents: bool) -> JobHere:
    from pylaunch.features.slurm.allocation import allocation_here  # noqa: PLC0415 -- only where there is a job

    events: list[JobNews] = []
    allocation = allocation_here(jobs, scheduler.nodes_here(os.environ), events.append)
    if starts_agents:
        allocation.start_agents()
    return JobHere(allocation, tuple(events))
