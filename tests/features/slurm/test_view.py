"""Lines about a Slurm job."""

import base64

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
from pylaunch.features.slurm.job_script import daemon_argv, job_script
from pylaunch.features.slurm.view import HINTS, line, show
from pylaunch.model.slurm_job import UNKNOWN, JobState, SlurmJob, SlurmNode
from pylaunch.runs.prepare.archive import AgentArchive
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


ARCHIVE = AgentArchive(b"PK" + bytes(range(256)) * 3, "0123456789abcdef")


def test_the_script_has_the_archive_as_the_input_of_one_step_on_all_nodes() -> None:
    before, after = job_script(ARCHIVE).split("base64 -d << 'ARCHIVE' | ")
    step, rest = after.split('"$job"\n')
    assert step.startswith('srun --jobid="$job" --nodes="$nodes" --ntasks="$nodes" $overlap --ntasks-per-node=1')
    assert base64.b64decode(rest.removesuffix("ARCHIVE\n")) == ARCHIVE.data
    assert "srun --" not in before


def test_srun_in_the_script_sees_no_variable_of_sbatch() -> None:
    script = job_script(ARCHIVE)
    assert (
        script.index("job=$SLURM_JOB_ID")
        < script.index('[ -z "$SLURM_GPUS" ]')
        < script.index("unset $(env")
        < script.index("srun --jobid")
    )


def test_the_step_in_a_job_of_somebody_else_names_its_nodes() -> None:
    words = daemon_argv("7", ("n1", "n2"), ARCHIVE)
    assert "--nodelist=n1,n2" in words
    assert words[-3:] == (ARCHIVE.version, "15", "7")


def test_the_step_of_a_component_is_one_of_its_job() -> None:
    words = daemon_argv("7+1", ("n3",), ARCHIVE, 2)
    assert {"--jobid=7", "--het-group=1", "--gpus=2", "--nodelist=n3"} <= {*words}
    assert words[-3:] == (ARCHIVE.version, "15", "7")
    assert "--gres=none" in daemon_argv("7", ("n3",), ARCHIVE, 0)
