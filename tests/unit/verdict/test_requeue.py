"""Return of a Slurm job to the queue after an attempt."""

from dataclasses import replace

import pytest

from pylaunch.model.diagnosis.cause import Certainty, FailureCause
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.slurm_job import UNKNOWN, JobLife
from pylaunch.verdict.requeue import BY_SLURM, LOST_AGENT, LOST_NODE, OUT_OF_TIME, NoRequeue, Requeue, requeue_after

RUNS = JobLife("RUNNING")


def ended(status: Status, *, out_of_time: bool = False, by_hand: bool = False) -> Outcome:
    return Outcome(status, "", 0.0, (), {}, out_of_time=out_of_time, by_hand=by_hand)


CHECKPOINT = ended(Status.STOPPED, out_of_time=True)
FAILED = ended(Status.FAILED)
LOST = replace(FAILED, causes=(FailureCause("node-lost", "n2 lost: no heartbeat for 6 s", Certainty.LIKELY),))
RESTARTED = replace(FAILED, causes=(FailureCause("node-restarted", "n2 answers, but …", Certainty.CERTAIN),))
AGENT = replace(FAILED, causes=(FailureCause("agent-lost", "n2 answers, but …", Certainty.LIKELY),))
KILLED = replace(FAILED, causes=(FailureCause("rank-killed", "rank 1", Certainty.LIKELY), *LOST.causes))


@pytest.mark.parametrize(
    ("outcome", "before", "life", "decided"),
    [
        (CHECKPOINT, 0, RUNS, Requeue(1, OUT_OF_TIME)),
        (CHECKPOINT, 1, JobLife("RUNNING", 1), Requeue(2, OUT_OF_TIME)),
        (CHECKPOINT, 2, JobLife("RUNNING", 2), NoRequeue("--max-requeues is 2, and the job was requeued 2 times")),
        # Slurm requeued the job while the ranks saved their checkpoint, or before anybody noticed.
        (CHECKPOINT, 0, JobLife("PENDING", 1), Requeue(1, BY_SLURM)),
        (FAILED, 0, JobLife("PENDING", 1), Requeue(1, BY_SLURM)),
        (FAILED, 0, JobLife("RUNNING", 1), Requeue(1, BY_SLURM)),
        (FAILED, 2, JobLife("PENDING", 3), NoRequeue("--max-requeues is 2, and the job was requeued 2 times")),
        # A run that fails on its own would fail again.
        (FAILED, 0, RUNS, NoRequeue()),
        (FAILED, 1, JobLife("RUNNING", 1), NoRequeue()),
        (KILLED, 0, RUNS, NoRequeue()),
        # A node that is lost says nothing against the run, and no restart in the job has replaced it.
        (LOST, 0, RUNS, Requeue(1, LOST_NODE)),
        (RESTARTED, 0, RUNS, Requeue(1, LOST_NODE)),
        (AGENT, 0, RUNS, Requeue(1, LOST_AGENT)),
        (LOST, 2, JobLife("RUNNING", 2), NoRequeue("--max-requeues is 2, and the job was requeued 2 times")),
        (LOST, 0, JobLife("NODE_FAIL"), NoRequeue("the job is NODE_FAIL")),
        (LOST, 0, JobLife("PENDING", 1), Requeue(1, BY_SLURM)),
        (replace(LOST, by_hand=True), 0, RUNS, NoRequeue()),
        (ended(Status.DONE), 0, JobLife("PENDING", 1), NoRequeue()),
        (ended(Status.STOPPED, by_hand=True), 0, JobLife("PENDING", 1), NoRequeue()),
        # The job of somebody who cancelled it meanwhile stays cancelled.
        (CHECKPOINT, 0, JobLife("COMPLETING"), NoRequeue("the job is COMPLETING")),
        (CHECKPOINT, 0, JobLife("CANCELLED"), NoRequeue("the job is CANCELLED")),
        (CHECKPOINT, 0, JobLife(UNKNOWN), NoRequeue("the job is UNKNOWN")),
    ],
)
def test_a_job_returns_at_the_end_of_its_time_after_a_lost_node_and_when_slurm_takes_its_nodes(
    outcome: Outcome, before: int, life: JobLife, decided: Requeue | NoRequeue
) -> None:
    assert requeue_after(outcome, 2, before, life) == decided
