"""Plan a start: every node with the commands that it will execute, before any host is contacted."""

from collections.abc import Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.model.cluster import Cluster
from pylaunch.model.job import JobSpec
from pylaunch.model.plan import NodeCommand, NodePlan, RunPlan, plan_run
from pylaunch.model.run import Notes
from pylaunch.model.secret import MASK, secret_options, variable_of
from pylaunch.render import remarks, render
from pylaunch.store import runs


@dataclass(frozen=True)
class PlannedRun:
    """An attempt that was decided: every node with the commands that it will execute."""

    plan: RunPlan
    commands: tuple[tuple[NodePlan, NodeCommand], ...]


def plan_start(cluster: Cluster, job: JobSpec, say: Notes) -> PlannedRun:
    """Plan a run of `job` on `cluster` under a new id. No host is contacted.

    `say` gets remarks. Raises UsageError for a job that does not fit the cluster.
    """
    planned = planned_run(plan_run(cluster, job, runs.new_run_id()))
    for remark in remarks(planned.plan):
        say(remark)
    if names := secret_options(job.command):
        say(_secrets_shown(names))
    return planned


def _secrets_shown(names: Sequence[str]) -> str:
    """Return the note for secrets on the command line; records and views mask them."""
    first = next((variable_of(name) for name in names if not name.startswith("argument ")), "NAME")
    return (
        f"note: {', '.join(names)}: every user of a node can read the values of a command line. Records and views show "
        f"{MASK}; to keep a value to the ranks, read it from a variable: --secret {first}"
    )


def planned_run(plan: RunPlan) -> PlannedRun:
    """Return `plan` with the commands of its nodes."""
    return PlannedRun(plan, render(plan))
