"""The source of the nodes of a start. In a Slurm job, its agents start while the modules of a start are imported."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.inventory.settings import Settings, read_settings
from pylaunch.terminal.flags import scheduler
from pylaunch.terminal.flags.scheduler import JOB_ID, NodeSource, SchedulerFlags
from pylaunch.workflows.allocation import Allocation, JobEvent, allocation_here


@dataclass(frozen=True)
class JobHere:
    """The Slurm job in which pylaunch runs."""

    allocation: Allocation
    events: tuple[JobEvent, ...]
    """To show when the nodes are used."""


@dataclass(frozen=True)
class StartSource:
    """The source of the nodes of a start, and the job in which pylaunch runs, which is being asked."""

    kind: NodeSource
    settings: Settings
    asked: Future[JobHere] | None = None


def source_of_start(flags: SchedulerFlags, *, has_inventory: bool, starts_agents: bool) -> StartSource:
    """Return the source of the nodes of a start. In a Slurm job, begin to ask Slurm and to start the agents there.

    Without a run, the agents end on their own. Raises UsageError for flags that contradict each other.
    """
    settings = read_settings(Path.cwd())
    kind = scheduler.node_source(flags, settings, os.environ, has_inventory=has_inventory)
    if kind is not NodeSource.HERE:
        return StartSource(kind, settings)
    jobs = scheduler.jobs_here(os.environ)
    if len(jobs) > 1 and flags.max_requeues:
        raise UsageError(
            f"--max-requeues {flags.max_requeues}: Slurm job {os.environ[JOB_ID]} has {len(jobs)} components, and "
            "pylaunch requeues jobs of one",
            hint="omit --max-requeues",
        )
    thread = ThreadPoolExecutor(1, thread_name_prefix="Slurm")
    asked = thread.submit(_asked, jobs, starts_agents=starts_agents)
    thread.shutdown(wait=False)
    return StartSource(kind, settings, asked)


def _asked(jobs: tuple[str, ...], *, starts_agents: bool) -> JobHere:
    events: list[JobEvent] = []
    allocation = allocation_here(jobs, scheduler.nodes_here(os.environ), events.append)
    if starts_agents:
        allocation.start_agents()
    return JobHere(allocation, tuple(events))
