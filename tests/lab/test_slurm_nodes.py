"""Nodes of a Slurm job that fail, jobs that return to the queue with spares, and runs whose controller died."""

from pathlib import Path

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from tests.lab.controller import Gate, must_be_clean, starting
from tests.lab.slurm_jobs import COMMAND, attached, failed, job_of, skip_requeue_delay, state
from tests.waiting import DEADLINE_S, wait_until

SECOND_TIME = "echo at attempt $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = {last} ] || exec sleep 300"
"""A rank that waits, and is done in the attempt with this number."""


def rank(last: int) -> tuple[str, ...]:
    return ("--", "sh", "-c", SECOND_TIME.format(last=last))


def test_a_job_that_lost_a_node_returns_to_the_queue_and_its_run_continues(slurm: Lab, tmp_path: Path) -> None:
    options = ("--nodes", "2", "--max-requeues", "1", "--grace", "1")
    with starting(slurm, tmp_path, *options, *COMMAND, *rank(1)) as started:
        started.says("at attempt 0", times=2)
        job = job_of(started.stderr)
        with failed(slurm, "n2"):
            started.says(f"Slurm job {job} requeued (a lost node, 1 of 1); the run continues as ")
            skip_requeue_delay(slurm, job)
            assert started.ends() == ExitCode.DONE, started.stderr
    assert "n2 lost: " in started.stderr
    assert f"Slurm job {job} has n[1,3] after " in started.stderr
    assert started.stdout.count("| at attempt 1") == 2
    must_be_clean(slurm)


def test_a_requeued_job_has_its_spares_again(slurm: Lab, tmp_path: Path) -> None:
    options = ("--nodes", "2", "--spares", "1", "--max-restarts", "1", "--max-requeues", "1", "--exclusive")
    with starting(slurm, tmp_path, *options, *COMMAND, *rank(2)) as started:
        started.says("at attempt 0", times=2)
        job = job_of(started.stderr)
        slurm["n1"].run("scontrol", "requeue", job)
        started.says(f"Slurm job {job} requeued (Slurm: preempted, a node failed, or by hand, 1 of 1)")
        skip_requeue_delay(slurm, job)
        started.says("at attempt 1", times=2)
        with failed(slurm, "n2"):
            assert started.ends() == ExitCode.DONE, started.stderr
    assert "(n3 in place of n2: lost: Slurm has removed n2 from job" in started.stderr
    assert started.stdout.count("| at attempt 2") == 2
    must_be_clean(slurm)


@pytest.mark.parametrize(("status", "ended"), [(0, "COMPLETED"), (1, "FAILED")])
def test_who_attaches_to_a_run_without_a_controller_ends_its_job_with_it(
    slurm: Lab, tmp_path: Path, status: int, ended: str
) -> None:
    gate = Gate(slurm)
    script = f"echo up; {gate.wait}; exit {status}"
    with starting(slurm, tmp_path, "--nodes", "2", *COMMAND, "--", "sh", "-c", script) as started:
        started.says("| up", times=2)
        started.kill()
    job = job_of(started.stderr)
    shown = tmp_path / "shown"
    with shown.open("wb") as out, attached(slurm, started.run, out) as following:
        wait_until(lambda: shown.read_text().count("| up") == 2, "the output")
        gate.open()
        assert following.wait(DEADLINE_S) == (ExitCode.JOB_FAILED if status else ExitCode.DONE)
    assert f"Slurm job {job} ended: {ended}" in shown.read_text()
    assert state(slurm, job) == ended
    gate.remove()
    must_be_clean(slurm)
