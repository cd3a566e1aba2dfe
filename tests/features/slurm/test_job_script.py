"""Script of the Slurm job that pylaunch submits, steps in jobs of others, and lines about jobs."""

import base64

import pytest

from pylaunch.features.slurm.allocation import ENDING_HINTS, WAITING_HINTS, JobNews, ended_news, waiting_news
from pylaunch.features.slurm.job_script import daemon_argv, job_script
from pylaunch.model.slurm_job import UNKNOWN, JobState
from pylaunch.runs.prepare.install import AgentArchive

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


@pytest.mark.parametrize("state", [*ENDING_HINTS, UNKNOWN])
def test_the_end_of_a_job_by_slurm_has_a_next_step(state: str) -> None:
    shown = "Slurm job 7 ended" + ("" if state == UNKNOWN else f": {state}")
    assert ended_news("7", JobState(state)) == JobNews(shown, ENDING_HINTS.get(state, ""))


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("JobHeldUser", "scontrol release 7 ends the hold"),
        ("ReqNodeNotAvail, UnavailableNodes:n2", WAITING_HINTS["ReqNodeNotAvail"]),
    ],
)
def test_a_job_that_does_not_leave_the_queue_on_its_own_has_a_next_step(reason: str, hint: str) -> None:
    news = waiting_news("7", JobState("PENDING", reason))
    assert news == JobNews(f"Slurm job 7 is PENDING ({reason})", hint)
