"""Lines about a Slurm job."""

from __future__ import annotations

import pytest

from pylaunch.cli.views.queueing import HINTS, line, show
from pylaunch.model.slurm_job import UNKNOWN, JobState, SlurmJob, SlurmNode
from pylaunch.workflows.allocation import (
    JobCancelled,
    JobEnded,
    JobEvent,
    JobGranted,
    JobNotRequeued,
    JobRemains,
    JobRequeued,
    JobSubmitted,
    JobWaits,
)

NODES = (SlurmNode("n1", "10.0.0.1"), SlurmNode("n2", "10.0.0.2"))


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (JobSubmitted("7", 1), "Slurm job 7 submitted: 1 node"),
        (JobWaits("7", JobState("PENDING")), "Slurm job 7 is PENDING"),
        (
            JobWaits("7", JobState("PENDING", "Priority", starts="2026-11-22T19:40:30")),
            "Slurm job 7 is PENDING (Priority), estimated start 2026-11-22 19:40:30",
        ),
        (JobGranted(SlurmJob("7", NODES, is_ours=True), 41.23), "Slurm job 7 has n[1-2] after 41.2 s"),
        (JobGranted(SlurmJob("7", NODES), 0.0), "Slurm job 7 has n[1-2]"),
        (JobCancelled("7"), "Slurm job 7 cancelled"),
        (JobEnded("7", JobState("TIMEOUT")), "Slurm job 7 ended: TIMEOUT"),
        (
            JobRequeued("7", 1, 3, "7f3a9c01.1", is_ours=True, is_requested=True),
            "Slurm job 7 requeued (its time limit, 1 of 3); the run continues as 7f3a9c01.1",
        ),
        (
            JobRequeued("7", 2, 3, "r.2", is_ours=False, is_requested=True),
            (
                "Slurm job 7 requeued (its time limit, 2 of 3); the run continues as r.2, "
                "when Slurm starts its script again"
            ),
        ),
        (
            JobNotRequeued("7", "the job is CANCELLED"),
            "Slurm job 7 is not requeued: the job is CANCELLED; a new start continues from the last checkpoint",
        ),
        (JobEnded("7", JobState(UNKNOWN)), "Slurm job 7 ended"),
        (
            JobRemains("7", JobState("COMPLETING", nodes="n2")),
            "note: Slurm job 7 was cancelled and is still COMPLETING on n2: a node does not answer",
        ),
    ],
)
def test_the_line_of_an_event(event: JobEvent, shown: str) -> None:
    assert line(event) == shown


@pytest.mark.parametrize("state", sorted(HINTS))
def test_the_end_of_a_job_by_slurm_has_a_next_step(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(JobEnded("7", JobState(state)))
    assert capsys.readouterr().err == f"Slurm job 7 ended: {state}\n\nhint: {HINTS[state]}\n"
