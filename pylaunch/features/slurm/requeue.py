"""Continue a run when its Slurm job returns to the queue: at the time limit, after a preemption or a lost node.

A job that pylaunch submitted is followed by its controller, which starts the next attempt once the job has nodes. In a
job of somebody else, Slurm starts the job's script again, and with it another controller: it finds the run here.
"""

import contextlib
import time
from collections.abc import Callable

from pylaunch.base.dataclass import replace
from pylaunch.errors import ClusterNotReadyError
from pylaunch.features.slurm.allocation import Allocation, JobNews, Pause, granted_again, wait
from pylaunch.model.cluster import Cluster
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan, base_of
from pylaunch.model.run import RunRecord
from pylaunch.model.secret import masked
from pylaunch.model.slurm_job import GRANTED, times
from pylaunch.runs.follow.job_time import job_of
from pylaunch.store import runs
from pylaunch.transport import interrupts
from pylaunch.transport.slurm import commands
from pylaunch.verdict.requeue import BY_SLURM, NoRequeue, Requeue, requeue_after, requeue_cause


def not_requeued(job: str, why: str) -> JobNews:
    """Return the news of a job that does not return to the queue."""
    return JobNews(f"Slurm job {job} is not requeued: {why}; a new start continues from the last checkpoint")


class JobRequeues:
    """The requeues of the job of a run."""

    def __init__(self, allocation: Allocation, restarts: int, pause: Pause = wait) -> None:
        self._allocation = allocation
        self._restarts = restarts
        """Requeues of the job when the attempt began."""

        self._pause = pause

    def has_nodes(self) -> bool:
        """Return whether the job still has the nodes of the attempt, also when Slurm does not answer."""
        try:
            return commands.job_life(self._allocation.job.id).restarts == self._restarts
        except ClusterNotReadyError:
            return True

    def next_cluster(self, plan: RunPlan, outcome: Outcome) -> Cluster | None:
        """Return the nodes on which the run continues after the attempt `plan`; None if this controller starts none.

        Waits in the queue for them. Raises ClusterNotReadyError for a job that ends there.
        """
        job = self._allocation.job
        # Within the job, Slurm's SIGTERM arrives as soon as the job is requeued, and must not cut off the report of it.
        with contextlib.nullcontext() if job.is_ours else interrupts.received_by(lambda _: None):
            decided = self._requeued(plan, outcome)
        if decided is None or not job.is_ours:
            return None
        self._allocation = granted_again(self._allocation, self._restarts, self._pause)
        self._restarts = decided.count
        return self._allocation.cluster

    def _requeued(self, plan: RunPlan, outcome: Outcome) -> Requeue | None:
        """Put the job into the queue where `outcome` permits it, and report either; None where it stays out of it."""
        job, emit = self._allocation.job, self._allocation.emit
        try:
            life = commands.job_life(job.id)
            alone = life.element or job.id
            decided = requeue_after(outcome, plan.job.max_requeues, self._restarts, life)
            if isinstance(decided, NoRequeue):
                if life.restarts > self._restarts:
                    commands.cancel(alone)
                if decided.why:
                    emit(not_requeued(job.id, decided.why))
                return None
            if decided.cause != BY_SLURM and not commands.requeue(alone) and commands.job_life(job.id).state == GRANTED:
                emit(not_requeued(job.id, "SIGTERM ended scontrol requeue"))
                return None
        except ClusterNotReadyError as error:
            if requeue_cause(outcome):
                emit(not_requeued(job.id, error.message))
            return None
        following = f"{base_of(plan.run)}.{plan.restart + 1}"
        then = "" if job.is_ours else ", when Slurm starts its script again"
        why = f"{decided.cause}, {decided.count} of {plan.job.max_requeues}"
        emit(JobNews(f"Slurm job {job.id} requeued ({why}); the run continues as {following}{then}"))
        return decided


def continued_run(plan: RunPlan, job: str, restarts: int, note: Callable[[str], None]) -> RunPlan:
    """Return `plan` as the next attempt of the run that `job` had before Slurm requeued it `restarts` times.

    The run is the last one here on nodes of that job with the same command. One that is done is not continued.

    Raises ClusterNotReadyError for a job that was requeued more often than the plan permits.
    """
    most = plan.job.max_requeues
    if most and restarts > most:
        raise ClusterNotReadyError(
            f"Slurm job {job} was requeued {times(restarts)}, and --max-requeues is {most}",
            hint=f"scontrol show job {job} shows its state; a larger --max-requeues permits more",
        )
    before = next((each for each in runs.readable(note) if _is_before(each, plan, job)), None)
    if before is None:
        note(
            f"note: Slurm job {job} was requeued {times(restarts)}, and no record of its run is here: a run with a "
            "new id continues it (records are kept in XDG_STATE_HOME, which the nodes may not share)"
        )
        return replace(plan, run=f"{plan.run}.{restarts}", restart=restarts)
    if before.outcome is not None and before.outcome.status is Status.DONE:
        return plan
    if before.outcome is None:
        _end_record(before.plan.run, job, note)
    restart = before.plan.restart + 1
    after = replace(plan, run=f"{base_of(before.plan.run)}.{restart}", restart=restart)
    note(f"Slurm job {job} was requeued {times(restarts)}: run {before.plan.run} continues as {after.run}")
    return after


def _is_before(record: RunRecord, plan: RunPlan, job: str) -> bool:
    then, now = record.plan.job, plan.job
    is_same = (then.command, then.framework, then.workdir) == (masked(now.command), now.framework, now.workdir)
    return not record.is_foreign and is_same and job_of(record.plan) == job


def _end_record(run: str, job: str, note: Callable[[str], None]) -> None:
    """Record the end of an attempt whose controller Slurm has ended with the job."""
    recorder = runs.Recorder(run, note)
    if recorder.take_charge():
        reason = f"Slurm ended job {job} and put it into the queue again"
        recorder.finish(Outcome(Status.STOPPED, reason, time.time(), (), {}))
        recorder.give_up_charge()
