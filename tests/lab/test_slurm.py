"""Runs on the nodes of a Slurm job, on three real nodes with Slurm: the promises of a start over SSH."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from lab.lab import Lab
from lab.node_faults.faults import Freeze, inject
from pylaunch.errors import ExitCode
from pylaunch.model.text.argv import quoted
from pylaunch.transport.process import Completed
from tests.lab.controller import listed, must_be_clean, starting
from tests.lab.slurm_jobs import (
    COMMAND,
    PATIENT,
    PROJECT,
    SAVES,
    attached,
    cancelled,
    granted,
    job_of,
    jobs,
    lines_of,
    skip_requeue_delay,
    state,
)
from tests.waiting import DEADLINE_S, wait_until


def test_ranks_start_on_the_nodes_of_a_job_that_completes_with_the_run(slurm: Lab) -> None:
    script = "hostname; env | grep -e ^SLURM -e ^PMI; exit 0"
    started = slurm.pylaunch("start", "--scheduler", "slurm", "--nodes", "3", *COMMAND, "--", "sh", "-c", script)
    assert started.returncode == ExitCode.DONE, started.stderr
    assert sorted(line.partition(" | ")[2] for line in started.stdout.splitlines()) == ["n1", "n2", "n3"]
    assert "n[1-3]: clean" in started.stderr
    assert state(slurm, job_of(started.stderr)) == "COMPLETED"
    must_be_clean(slurm)


def test_a_killed_rank_is_named_and_the_job_fails(slurm: Lab, tmp_path: Path) -> None:
    script = "[ $RANK = 1 ] && { sleep 1; kill -9 $$; }; exec sleep 300"
    with starting(slurm, tmp_path, "--nodes", "2", *COMMAND, "--", "sh", "-c", script) as started:
        assert started.ends() == ExitCode.JOB_FAILED, started.stderr
        assert "rank 1 on n2 was killed by SIGKILL" in started.stderr
        assert "n[1-2]: clean" in started.stderr
    assert state(slurm, job_of(started.stderr)) == "FAILED"
    must_be_clean(slurm)


def test_a_lost_node_is_replaced_by_a_spare_of_the_same_job(slurm: Lab, tmp_path: Path) -> None:
    script = (
        "echo at attempt $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 300; exit 0"
    )
    options = ("--nodes", "2", "--spares", "1", "--max-restarts", "1")
    with starting(slurm, tmp_path, *options, *COMMAND, "--", "sh", "-c", script) as started:
        started.says("at attempt 0", times=2)
        with inject(slurm["n2"], Freeze()):
            started.says("at attempt 1", times=2)
        # Slurm reports the end of the job once the node is back.
        assert started.ends() == ExitCode.DONE, started.stderr
        assert "restart 1 of 1 (n3 in place of n2: lost: " in started.stderr
    wait_until(lambda: not jobs(slurm), "the job has ended")
    must_be_clean(slurm)


def test_ctrl_c_ends_ranks_and_job(slurm: Lab, tmp_path: Path) -> None:
    with starting(slurm, tmp_path, "--nodes", "2", *COMMAND, "--", "sh", "-c", PATIENT) as started:
        started.says("| up", times=2)
        started.interrupt()
        assert started.ends() == ExitCode.INTERRUPTED, started.stderr
        assert "n[1-2]: clean" in started.stderr
    must_be_clean(slurm)


def test_a_detached_run_is_listed_followed_and_stopped_without_its_controller(slurm: Lab, tmp_path: Path) -> None:
    options = ("--scheduler", "slurm", "--nodes", "2", *COMMAND, "--detach")
    started = slurm.pylaunch("start", *options, "--", "sh", "-c", PATIENT, timeout_s=DEADLINE_S)
    assert started.ok, started.stderr
    run = next(line.split()[1].rstrip(":") for line in started.stderr.splitlines() if line.startswith("run "))
    job = {"job": job_of(started.stderr), "state": "RUNNING", "submitted": True}
    assert [each["slurm_jobs"] for each in listed(slurm) if each["run"] == run] == [[job]]
    assert f"Slurm job {job['job']} RUNNING, ends with the run" in slurm.pylaunch("status", run).stdout
    controller = Path(slurm.environment["XDG_STATE_HOME"]) / "pylaunch" / "runs" / run / "controller"
    os.kill(int(controller.read_text()), signal.SIGKILL)
    shown = tmp_path / "shown"
    with shown.open("wb") as out, attached(slurm, run, out) as following:
        wait_until(lambda: "| up 0" in shown.read_text() and "| up 1" in shown.read_text(), "the output")
        stopped = slurm.pylaunch("stop", run, timeout_s=DEADLINE_S)
        assert stopped.ok, stopped.stderr
        assert "n[1-2]: clean" in stopped.stderr
        assert following.wait(DEADLINE_S) == ExitCode.INTERRUPTED
    # Both processes end the job with the run, and one that finds it ended reports nothing.
    assert f"Slurm job {job['job']} ended: FAILED" in stopped.stderr + shown.read_text()
    assert not jobs(slurm)
    must_be_clean(slurm)


def test_a_cancelled_job_is_the_reason_and_its_nodes_are_proven_clean(slurm: Lab, tmp_path: Path) -> None:
    with starting(slurm, tmp_path, "--nodes", "2", *COMMAND, "--", "sh", "-c", PATIENT) as started:
        started.says("| up", times=2)
        job = job_of(started.stderr)
        slurm["n1"].run("scancel", job)
        code = started.ends()
        assert code == ExitCode.INTERRUPTED
        assert f"run {started.run} stopped: Slurm job {job} was cancelled (scancel)" in started.stderr
        assert f"Slurm job {job} ended: CANCELLED" in started.stderr
        assert "n[1-2]: clean" in started.stderr
        for accusation in ("trying to reach it again", "lost", "not known to be clean"):
            assert accusation not in started.stderr
    assert state(slurm, job) == "CANCELLED"
    must_be_clean(slurm)


def test_an_allocation_is_found_and_kept(slurm: Lab) -> None:
    granted = slurm["n1"].run("salloc", "--no-shell", "--nodes=2").stderr
    job = granted.split()[-1]
    inside = {"SLURM_JOB_ID": job, "SLURM_NTASKS": "7", "SLURM_CPUS_PER_TASK": "3"}
    started = slurm.pylaunch("start", *COMMAND, "--", "hostname", env=inside, timeout_s=DEADLINE_S)
    assert started.returncode == ExitCode.DONE, started.stderr
    assert sorted(line.partition(" | ")[2] for line in started.stdout.splitlines()) == ["n1", "n2"]
    assert state(slurm, job) == "RUNNING"

    small = slurm.pylaunch("start", "--nodes", "3", *COMMAND, "--", "hostname", env=inside, timeout_s=DEADLINE_S)
    assert small.returncode == ExitCode.USAGE
    assert f"Slurm job {job} has 2 (n[1-2])" in small.stderr

    other = slurm.pylaunch(
        "start", "-i", str(slurm.inventory), *COMMAND, "--", "hostname", env=inside, timeout_s=DEADLINE_S
    )
    assert other.returncode == ExitCode.USAGE
    assert f"has n[1-3], and Slurm job {job} has n[1-2]: n3 is not in the job" in other.stderr
    left = slurm.pylaunch("start", "--detach", *COMMAND, "--", "sleep", "1", env=inside, timeout_s=DEADLINE_S)
    assert f" ends with Slurm job {job}, and a batch script ends here" in left.stderr
    slurm["n1"].run("scancel", job)
    wait_until(lambda: not jobs(slurm), "the allocation has ended")
    must_be_clean(slurm)


def script_of(options: tuple[str, ...], file: str) -> bytes:
    """A job script that becomes pylaunch, whose ranks save a checkpoint after SIGTERM; its output is in `file`."""
    rank = ("sh", "-c", SAVES.format(file="/tmp/checkpoint"))
    line = quoted((sys.executable, "-P", "-m", "pylaunch", "start", *options, *COMMAND, "--", *rank))
    return f"#!/bin/sh\nexport PYTHONPATH={PROJECT} XDG_STATE_HOME=/tmp/state\nexec {line} >> {file} 2>&1\n".encode()


SBATCH = ("sbatch", "--parsable", "--nodes=3", "--ntasks-per-node=1", "--output=/dev/null")


def test_a_job_script_that_slurm_requeues_starts_again_and_continues_from_the_checkpoint(slurm: Lab) -> None:
    file, first = "/tmp/requeued", slurm["n1"]
    job = first.run(*SBATCH, "--requeue", stdin=script_of((), file)).stdout.strip()
    wait_until(lambda: first.run("cat", file, check=False).stdout.count("| up") == 3, "the ranks run")
    first.run("scontrol", "requeue", job)
    skip_requeue_delay(slurm, job)
    wait_until(lambda: state(slurm, job) == "COMPLETED", "the job is done")
    written = first.run("cat", file).stdout
    assert written.count("| continues") == 3, written
    assert "n[1-3]: clean" in written
    for node in slurm:
        node.run("rm", "-f", "/tmp/checkpoint")
    must_be_clean(slurm)


@pytest.mark.parametrize(
    ("options", "words", "hint"),
    [
        (("--partition", "nope"), "Invalid partition name specified", "sinfo lists"),
        (("--time", "999:00:00"), "PartitionTimeLimit", "sinfo -o"),
    ],
)
def test_a_request_that_slurm_refuses_has_its_words_and_a_hint(
    slurm: Lab, options: tuple[str, ...], words: str, hint: str
) -> None:
    refused = slurm.pylaunch(
        "start", "--scheduler", "slurm", "--nodes", "2", *options, *COMMAND, "--", "hostname", timeout_s=DEADLINE_S
    )
    assert refused.returncode == ExitCode.CLUSTER_NOT_READY
    assert words in refused.stderr
    assert hint in refused.stderr
    wait_until(lambda: not jobs(slurm), "no job waits")


LOOK = "echo $(hostname) $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE of $WORLD_SIZE sees ${CUDA_VISIBLE_DEVICES-all}"


def test_each_node_has_as_many_ranks_as_gpus_of_the_job_and_no_others(slurm: Lab) -> None:
    holding = granted(slurm, "--nodelist=n1", "--gres=gpu:1")
    started = slurm.pylaunch(
        "start", "--scheduler", "slurm", "--nodes", "2", "--sbatch-arg=--gpus=3", "--sbatch-arg=--nodelist=n1,n2",
        *COMMAND, "--", "sh", "-c", LOOK, timeout_s=DEADLINE_S,
    )  # fmt: skip
    assert started.returncode == ExitCode.DONE, started.stderr
    assert lines_of(started.stdout) == ["n1 0 0/2 of 3 sees 1,2", "n1 1 1/2 of 3 sees 1,2", "n2 2 0/1 of 3 sees 0"]

    without = ("--scheduler", "slurm", "--nodes", "1", "--sbatch-arg=--nodelist=n1")
    started = slurm.pylaunch("start", *without, *COMMAND, "--", "sh", "-c", LOOK, timeout_s=DEADLINE_S)
    assert lines_of(started.stdout) == ["n1 0 0/1 of 1 sees"], started.stderr
    cancelled(slurm, holding)
    must_be_clean(slurm)


def test_check_gpus_and_clean_take_the_nodes_of_the_allocation(slurm: Lab, tmp_path: Path) -> None:
    job = granted(slurm, "--nodelist=n1,n2", "--gres=gpu:1")
    inside = {"SLURM_JOB_ID": job}

    def asked(*words: str) -> Completed:
        return slurm.pylaunch(*words, env=inside, cwd=tmp_path, timeout_s=DEADLINE_S)

    for verb in ("gpus", "clean"):
        answered = asked(verb, "--json")
        assert answered.ok, answered.stderr
        assert [(each["host"], each["unreachable"]) for each in json.loads(answered.stdout)["hosts"]] == [
            ("n1", None), ("n2", None),
        ]  # fmt: skip
    checked = asked("check", "--only", "host,storage.room,time", "--json")
    assert [each["host"] for each in json.loads(checked.stdout)["hosts"]] == ["n1", "n2"], checked.stderr
    assert not checked.stdout.count('unreachable": "')
    for verb in ("check", "gpus", "clean"):
        refused = asked(verb, "-i", str(slurm.inventory))
        assert refused.returncode == ExitCode.USAGE
        assert f"has n[1-3], and Slurm job {job} has n[1-2]: n3 is not in the job" in refused.stderr
    cancelled(slurm, job)
