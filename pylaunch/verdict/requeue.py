"""Decide after an attempt whether its Slurm job returns to the queue, to continue the run there. Pure.

Only the end of the time of the job, a lost node that nothing in the job replaces, a lost agent, and Slurm itself
(preemption, a failed node) cause that. A run that fails on its own would fail again, and its job does not return.
"""

from pylaunch.base.dataclass import dataclass
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.slurm_job import GRANTED, JobLife, times

BY_SLURM = "Slurm: preempted, a node failed, or by hand"
LOST_NODE = "a lost node"
LOST_AGENT = "a lost agent"
OUT_OF_TIME = "its time limit"


@dataclass(frozen=True)
class Requeue:
    """The run continues when the job has nodes again."""

    count: int
    """Number of this requeue, from 1."""

    cause: str
    """In words. With BY_SLURM, Slurm has requeued the job; otherwise pylaunch requests it."""


@dataclass(frozen=True)
class NoRequeue:
    """The run is over."""

    why: str = ""
    """Reason in one line; "" where nobody expects a requeue."""


def requeue_cause(outcome: Outcome) -> str:
    """Return why pylaunch may request a requeue after an attempt that ended with `outcome`; "" where it may not."""
    if outcome.by_hand or outcome.status is Status.DONE:
        return ""
    if outcome.out_of_time:
        return OUT_OF_TIME
    kind = outcome.causes[0].kind if outcome.causes else ""
    return {"node-lost": LOST_NODE, "node-restarted": LOST_NODE, "agent-lost": LOST_AGENT}.get(kind, "")


def requeue_after(outcome: Outcome, most: int, before: int, life: JobLife) -> Requeue | NoRequeue:
    """Return the decision for an attempt that ended with `outcome`.

    `most` requeues are allowed, of which there were `before` when the attempt began; `life` is that of the job now.
    """
    if outcome.status is Status.DONE or outcome.by_hand:
        return NoRequeue()
    is_requeued = life.restarts > before
    cause = BY_SLURM if is_requeued else requeue_cause(outcome)
    if not cause:
        return NoRequeue()
    if not is_requeued and life.state != GRANTED:
        return NoRequeue(f"the job is {life.state}")
    count = life.restarts if is_requeued else life.restarts + 1
    if count > most:
        return NoRequeue(f"--max-requeues is {most}, and the job was requeued {times(count - 1)}")
    return Requeue(count, cause)
