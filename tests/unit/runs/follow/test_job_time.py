"""The end of the time of a Slurm job."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.runs.follow import job_time
from pylaunch.runs.follow.job_time import JobTimeNews, ends_with_job, watch_job_time

JOB = JobSpec(("true",), Framework.COMMAND, "/tmp", checkpoint_before_end=timedelta(seconds=120))
SIGTERM = "pylaunch received SIGTERM"


def plan(job: JobSpec = JOB, slurm_job: str | None = "7") -> RunPlan:
    return plan_run(Cluster((Host("n1", "10.0.0.1", Connection.SLURM, slurm_job=slurm_job),)), job, "7f3a9c01")


def heard(planned: RunPlan, *lefts: float | None) -> list[JobTimeNews]:
    """Return the news while Slurm reports these times; NaN: Slurm does not answer."""
    news: list[JobTimeNews] = []
    rest = list(lefts)

    def time_left(job: str) -> float | None:
        assert job == "7"
        left = rest.pop(0)
        if left is not None and left != left:
            raise ClusterNotReadyError("squeue: Unable to contact slurm controller")
        return left

    async def post(message: object) -> None:
        assert isinstance(message, JobTimeNews)
        news.append(message)

    asyncio.run(watch_job_time(planned, time_left, post))
    assert not rest
    return news


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_time, "LOOK_S", 0.0)
    monkeypatch.setattr(job_time, "RETRY_S", 0.0)


def test_ranks_are_asked_once_the_time_is_short_also_when_the_limit_was_changed() -> None:
    nan = float("nan")
    assert heard(plan(), 3600.0, 7200.0, None, nan, 121.0, 120.0) == [JobTimeNews("7", 120.0, stops=False)]


def test_with_requeues_ranks_are_stopped_in_time_for_the_proof_of_their_end() -> None:
    job = replace(JOB, max_requeues=1, grace=timedelta(seconds=15))
    assert heard(plan(job), 119.0, 90.0, 35.0) == [
        JobTimeNews("7", 119.0, stops=False),
        JobTimeNews("7", 35.0, stops=True),
    ]


@pytest.mark.parametrize("planned", [plan(slurm_job=None), plan(replace(JOB, checkpoint_before_end=None))])
def test_slurm_is_asked_only_where_ranks_are_to_be_signalled(planned: RunPlan) -> None:
    assert heard(planned) == []


def test_sigterm_in_a_job_of_somebody_else_is_the_end_of_that_job() -> None:
    assert ends_with_job(plan(), SIGTERM)
    assert not ends_with_job(plan(), "interrupted")
    assert not ends_with_job(plan(slurm_job=None), SIGTERM)
    assert not ends_with_job(replace(plan(), submitted_job="7"), SIGTERM)
