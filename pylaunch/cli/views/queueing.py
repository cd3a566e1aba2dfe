"""Lines about a Slurm job: submitted, waiting, granted, ended."""

from __future__ import annotations

from pylaunch.cli import console
from pylaunch.cli.views.live import counted
from pylaunch.model.hostset import fold
from pylaunch.model.slurm_job import UNKNOWN
from pylaunch.workflows.allocation import (
    JobCancelled,
    JobEnded,
    JobEvent,
    JobGranted,
    JobRemains,
    JobSubmitted,
    JobUnanswered,
    JobWaits,
)


def show(event: JobEvent) -> None:
    """Print `event`."""
    console.say(line(event))


def line(event: JobEvent) -> str:
    """Return the line for `event`."""
    match event:
        case JobSubmitted(job, nodes):
            return f"Slurm job {job} submitted: {counted(nodes, 'node')}"
        case JobWaits(job, state):
            reason = f" ({state.reason})" if state.reason else ""
            starts = f", estimated start {state.starts.replace('T', ' ')}" if state.starts else ""
            return f"Slurm job {job} is {state.state}{reason}{starts}"
        case JobGranted(job, waited_s):
            hosts = fold(node.name for node in job.nodes)
            return f"Slurm job {job.id} has {hosts}" + (f" after {waited_s:.1f} s" if job.is_ours else "")
        case JobCancelled(job):
            return f"Slurm job {job} cancelled"
        case JobRemains(job, state):
            where = f" on {state.nodes}" if state.nodes else ""
            return f"note: Slurm job {job} was cancelled and is still {state.state}{where}: a node does not answer"
        case JobUnanswered(job, reason, is_left):
            then = f"job {job} was not ended: scancel {job}" if is_left else f"asking again about job {job}"
            return f"note: Slurm does not answer ({reason}); {then}"
        case JobEnded(job, state):
            return f"Slurm job {job} ended" + ("" if state.state == UNKNOWN else f": {state.state}")
