"""Nodes of a Slurm job that fail, and runs whose controller died."""

from pathlib import Path

from lab.lab import Lab
from pylaunch.errors import ExitCode
from tests.lab.controller import Gate, must_be_clean, starting
from tests.lab.slurm_jobs import COMMAND, attached, failed, job_of, state
from tests.waiting import DEADLINE_S, wait_until

AGAIN = "echo at attempt $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 300"
"""A rank that waits, and is done in the second attempt."""


def test_a_node_that_slurm_counts_as_failed_is_replaced_by_a_spare(slurm: Lab, tmp_path: Path) -> None:
    options = ("--nodes", "2", "--spares", "1", "--max-restarts", "1", "--sbatch-arg=--exclusive")
    with starting(slurm, tmp_path, *options, *COMMAND, "--", "sh", "-c", AGAIN) as started:
        started.says("at attempt 0", times=2)
        with failed(slurm, "n2"):
            assert started.ends() == ExitCode.DONE, started.stderr
    assert "(n3 in place of n2: lost: Slurm has removed n2 from job" in started.stderr
    assert started.stdout.count("| at attempt 1") == 2
    must_be_clean(slurm)


def test_who_attaches_to_a_run_without_a_controller_ends_its_job_with_it(slurm: Lab, tmp_path: Path) -> None:
    gate = Gate(slurm)
    script = f"echo up; {gate.wait}; exit 1"
    with starting(slurm, tmp_path, "--nodes", "2", *COMMAND, "--", "sh", "-c", script) as started:
        started.says("| up", times=2)
        started.kill()
    job = job_of(started.stderr)
    shown = tmp_path / "shown"
    with shown.open("wb") as out, attached(slurm, started.run, out) as following:
        wait_until(lambda: shown.read_text().count("| up") == 2, "the output")
        gate.open()
        assert following.wait(DEADLINE_S) == ExitCode.JOB_FAILED
    assert f"Slurm job {job} ended: FAILED" in shown.read_text()
    assert state(slurm, job) == "FAILED"
    gate.remove()
    must_be_clean(slurm)
