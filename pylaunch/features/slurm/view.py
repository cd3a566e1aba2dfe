"""Lines about a Slurm job: submitted, waiting, granted, ended."""

from pylaunch.features.slurm.allocation import (
    JobCancelled,
    JobEnded,
    JobEvent,
    JobGranted,
    JobNotRequeued,
    JobRemains,
    JobRequeued,
    JobSubmitted,
    JobUnanswered,
    JobWaits,
)
from pylaunch.model.hostset import fold
from pylaunch.model.slurm_job import UNKNOWN
from pylaunch.terminal import console, hints
from pylaunch.terminal.views.live import counted

HINTS = {
    "TIMEOUT": "a longer --time; or --max-requeues 3, with which a run continues from its checkpoint",
    "PREEMPTED": "--max-requeues 3: the run then continues when the job has nodes again",
    "NODE_FAIL": "sinfo -R lists the nodes that are down, with the reason",
    "OUT_OF_MEMORY": "more memory of each node: --sbatch-arg=--mem=SIZE, or --sbatch-arg=--mem=0 for all of it",
    "DEADLINE": "a later --sbatch-arg=--deadline=TIME",
}
"""Next step after a state in which Slurm ends a job."""

WAITING_HINTS = {
    "JobHeldUser": "scontrol release {job} ends the hold",
    "JobHeldAdmin": "an administrator holds it: ask who runs this cluster; Ctrl-C cancels it",
    "PartitionDown": "sinfo -s lists the partitions that are up",
    "PartitionInactive": "sinfo -s lists the partitions that are up",
    "ReqNodeNotAvail": "sinfo -R lists the nodes that are down or drained, with the reason",
}
"""Next step for a reason of a job in the queue that does not end on its own."""


def show(event: JobEvent) -> None:
    """Print `event`."""
    console.say(line(event))
    if isinstance(event, JobEnded) and (hint := HINTS.get(event.state.state)):
        hints.say(hint)
    if isinstance(event, JobWaits) and (hint := WAITING_HINTS.get(event.state.reason.partition(",")[0])):
        hints.say(hint.format(job=event.job))


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
        case JobRequeued(job, count, most, run, is_ours, cause):
            allowed = f", {count} of {most}" if most else ""
            then = "" if is_ours else ", when Slurm starts its script again"
            return f"Slurm job {job} requeued ({cause}{allowed}); the run continues as {run}{then}"
        case JobNotRequeued(job, why):
            return f"Slurm job {job} is not requeued: {why}; a new start continues from the last checkpoint"
        case JobEnded(job, state):
            return f"Slurm job {job} ended" + ("" if state.state == UNKNOWN else f": {state.state}")
