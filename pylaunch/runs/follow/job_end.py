"""The end of a Slurm job as a follower of its run sees it: connections end together, and Slurm knows why.

Nobody is lost then, and no node is called again. Slurm is asked once for all nodes of a job. Until Slurm has answered,
the follower ignores the ends of their connections. If the job continues, it treats them as any other end.
"""

import asyncio
from collections.abc import Callable

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.plan import RunPlan
from pylaunch.model.slurm_job import ENDING, QUEUED, JobState, cancellation_of_job, end_of_job, ended_job
from pylaunch.runs.connect.bounds import ConnectionEnded, Lost
from pylaunch.runs.events import clock_now

POLL_S = 0.5
ENDING_S = 60.0
"""For a job that ends: KillWait of Slurm is 30 s, and an epilog may follow."""

NOTICED_S = 2.0
"""From SIGTERM of Slurm, which ranks get, too, until this process notices: ends of ranks since then follow from it."""


@dataclass(frozen=True)
class JobAnswer:
    """Answer of Slurm about a job some of whose nodes end. Message to the follower."""

    job: str
    hosts: tuple[str, ...]
    """The nodes of the job."""

    state: JobState | None
    """None where Slurm does not answer."""

    is_ending: bool = False
    """The job has begun to end; another answer follows."""

    was_ending: bool = False
    """The answer before this one had `is_ending`."""

    at: float = 0.0
    """Time since which ranks may have ended with the job."""

    @property
    def end(self) -> str:
        """Return how the job has ended; "" for a job that has not, as far as Slurm says."""
        if self.is_ending or self.state is None:
            return ""
        if self.is_cancelled:
            return cancellation_of_job(self.job)
        # A job that Slurm has put into the queue again has other nodes next.
        is_over = self.state.is_over or self.was_ending or self.state.state in (ENDING, QUEUED)
        return end_of_job(self.job) if is_over else ""

    @property
    def is_cancelled(self) -> bool:
        """A person has cancelled the job."""
        return self.state is not None and self.state.state == "CANCELLED"


class JobQuestions:
    """Asks Slurm about the jobs of the nodes of a run, and posts each JobAnswer."""

    def __init__(self, plan: RunPlan, state_of: Callable[[str], JobState], post: Callable[[object], None]) -> None:
        self._jobs = {node.host.name: node.host.slurm_job for node in plan.nodes}
        self._state_of = state_of
        self._post = post
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._held: dict[str, ConnectionEnded | Lost] = {}

    def ask(self, host: str) -> bool:
        """Ask about the job of `host`, unless an answer is awaited; return False for a host without a job."""
        job = self._jobs.get(host)
        if job is not None and job not in self._tasks:
            self._tasks[job] = asyncio.ensure_future(self._answer(job))
        return job is not None

    def holds(self, host: str, message: ConnectionEnded | Lost) -> bool:
        """Hold `message` until Slurm has answered, and return True, if the end of a job may explain it.

        A node that is silent is given up at once: Slurm may take long to answer.
        """
        may_end_with_job = isinstance(message, ConnectionEnded) or ended_job(message.reason)
        if not (may_end_with_job and self.ask(host)):
            return False
        self._held[host] = message
        return True

    def release(self, host: str) -> ConnectionEnded | Lost | None:
        """Return the message of `host` that is held, and hold it no longer: Slurm has answered, or `host` has a
        connection again."""
        return self._held.pop(host, None)

    def end(self) -> None:
        """Await no answer any more."""
        for task in self._tasks.values():
            task.cancel()

    async def _answer(self, job: str) -> None:
        at = clock_now() - NOTICED_S
        state = await self._state(job)
        is_ending = state is not None and state.state == ENDING
        hosts = tuple(host for host, each in self._jobs.items() if each == job)
        if state is not None and is_ending:
            self._post(JobAnswer(job, hosts, state, is_ending=True))
            for _ in range(int(ENDING_S / POLL_S)):
                await asyncio.sleep(POLL_S)
                state = await self._state(job) or state
                if state.state != ENDING:
                    break
        del self._tasks[job]
        self._post(JobAnswer(job, hosts, state, was_ending=is_ending, at=at))

    async def _state(self, job: str) -> JobState | None:
        try:
            return await asyncio.to_thread(self._state_of, job)
        except ClusterNotReadyError:
            return None
