"""Script of the Slurm job that pylaunch submits, and steps in jobs of others."""

import base64

from pylaunch.features.slurm.job_script import daemon_argv, job_script
from pylaunch.runs.prepare.launch import AgentArchive

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


def test_a_step_requests_its_number_of_gpus() -> None:
    assert {"--jobid=7", "--gpus=2", "--nodelist=n3"} <= {*daemon_argv("7", ("n3",), ARCHIVE, 2)}
    assert "--gres=none" in daemon_argv("7", ("n3",), ARCHIVE, 0)
