"""The end of the time of a Slurm job: the signal to save a checkpoint, and the stop."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.plan import RunPlan
from pylaunch.transport.interrupts import signal_words

LOOK_S = 300.0
"""Longest time between two looks at the time that is left: a time limit can be changed while the job runs."""

RETRY_S = 10.0
"""Pause before another look when Slurm does not answer."""

REQUEUE_S = 20.0
"""For the proof that the nodes are clean and the request to Slurm, after the grace period of a stop."""

TimeLeft = Callable[[str], "float | None"]
"""Return the seconds until the time limit of a job; None for a job without one. Raises ClusterNotReadyError."""


@dataclass(frozen=True)
class JobTimeNews:
    """The time of `job` is nearly over. Message of `watch_job_time` to the follower."""

    job: str
    left_s: float
    stops: bool
    """Stop the ranks; otherwise they get the signal to save a checkpoint."""


def job_of(plan: RunPlan) -> str | None:
    """Return the Slurm job of the nodes of `plan`; None where they are reached over SSH."""
    return plan.coordinator.host.slurm_job


def ends_with_job(plan: RunPlan, reason: str) -> bool:
    """Return whether Slurm ends the job in which this controller runs: it sends SIGTERM to all processes of the job."""
    is_in_job = job_of(plan) is not None and plan.submitted_job is None
    return is_in_job and reason == signal_words(signal.SIGTERM)


def moments(plan: RunPlan) -> Iterable[tuple[float, bool]]:
    """Yield seconds before the end of the job, and whether the ranks are stopped then."""
    notice = plan.job.checkpoint_before_end
    if notice is not None:
        yield notice.total_seconds(), False
        if plan.job.max_requeues:
            yield min(notice.total_seconds(), plan.job.stop_grace.total_seconds() + REQUEUE_S), True


async def watch_job_time(plan: RunPlan, time_left: TimeLeft, post: Callable[[object], Awaitable[None]]) -> None:
    """Post JobTimeNews when the time of the Slurm job of `plan` is nearly over; return after the last one."""
    job = job_of(plan)
    if job is None:
        return
    for seconds, stops in moments(plan):
        await post(JobTimeNews(job, await _due(job, seconds, time_left), stops))


@contextlib.asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run `work` beside this block, which ends it."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _due(job: str, seconds: float, time_left: TimeLeft) -> float:
    """Wait until at most `seconds` of the time of `job` are left; return how many are."""
    due_at: float | None = None
    while True:
        try:
            left = await asyncio.to_thread(time_left, job)
        except ClusterNotReadyError:
            # The limit that was known before still holds.
            if due_at is not None and time.monotonic() >= due_at:
                return seconds
            pause_s = RETRY_S
        else:
            if left is not None and left <= seconds:
                return left
            due_at = None if left is None else time.monotonic() + left - seconds
            pause_s = LOOK_S
        if due_at is not None:
            pause_s = min(pause_s, max(1.0, due_at - time.monotonic()))
        await asyncio.sleep(pause_s)
