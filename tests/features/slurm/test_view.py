"""Lines about a Slurm job."""

from __future__ import annotations

import pytest

from pylaunch.features.slurm.allocation import (
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
from pylaunch.features.slurm.view import HINTS, line, show
from pylaunch.model.slurm_job import UNKNOWN, JobState, SlurmJob, SlurmNode
from pylaunch.verdict.requeue import LOST_NODE, OUT_OF_TIME

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
            JobRequeued("7", 1, 3, "7f3a9c01.1", is_ours=True, cause=OUT_OF_TIME),
            "Slurm job 7 requeued (its time limit, 1 of 3); the run continues as 7f3a9c01.1",
        ),
        (
            JobRequeued("7", 2, 3, "r.2", is_ours=False, cause=OUT_OF_TIME),
            (
                "Slurm job 7 requeued (its time limit, 2 of 3); the run continues as r.2, "
                "when Slurm starts its script again"
            ),
        ),
        (
            JobRequeued("7", 1, 0, "r.1", is_ours=True, cause=LOST_NODE),
            "Slurm job 7 requeued (a lost node); the run continues as r.1",
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


def test_a_job_that_is_held_in_the_queue_has_a_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    show(JobWaits("7", JobState("PENDING", "JobHeldUser")))
    assert capsys.readouterr().err == (
        "Slurm job 7 is PENDING (JobHeldUser)\n\nhint: scontrol release 7 ends the hold\n"
    )
    show(JobWaits("7", JobState("PENDING", "ReqNodeNotAvail, UnavailableNodes:n2")))
    assert "hint: sinfo -R lists" in capsys.readouterr().err
