"""Jobs in a lab with Slurm, and what the stories about them share."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lab.lab import Lab
from tests.waiting import wait_until

PROJECT = Path(__file__).parents[2]
INTERPRETER = tuple({Path(sys.prefix), Path(sys.base_prefix)} - {Path("/usr")})
"""Directories of the Python of this project. Nodes have the distribution's Python in a /usr of their own."""

COMMAND = ("--workdir", "/tmp", "--framework", "command")
PATIENT = "echo up $RANK; exec sleep 300"

SAVES = """
[ -e {file} ] && echo continues && exit 0
trap 'touch {file}; echo saved; exit 0' TERM
echo up
while :; do sleep 0.1; done
"""
"""A rank that saves a checkpoint after SIGTERM, and is done once there is one."""

QUEUED_FOR_S = 3
"""Slurm rejects the credential of a requeued job that is no newer than the end of the job before, in whole seconds."""

_QUEUED_AGAIN = """
shown=$(scontrol --oneliner show job {job})
case $shown in *JobState=PENDING*Restarts=1*) ;; *) exit 1;; esac
submitted=$(echo "$shown" | sed 's/.* SubmitTime=\\([^ ]*\\).*/\\1/')
[ $(date +%s) -ge $(($(date -d "$submitted" +%s) + {seconds})) ]
"""


def jobs(lab: Lab) -> list[str]:
    """Ids of the jobs that have not ended."""
    return lab["n1"].run("squeue", "--noheader", "--format=%i").stdout.split()


def state(lab: Lab, job: str) -> str:
    return lab["n1"].run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T").stdout.strip()


def job_of(stderr: str) -> str:
    """The id of the job that a start has submitted."""
    return next(line.split()[2] for line in stderr.splitlines() if line.startswith("Slurm job "))


def granted(lab: Lab, *words: str) -> str:
    """The id of an allocation without a process in it."""
    return lab["n1"].run("salloc", "--no-shell", *words).stderr.split()[-1]


def cancelled(lab: Lab, *ids: str) -> None:
    lab["n1"].run("scancel", *ids)
    wait_until(lambda: not jobs(lab), "the jobs have ended")


def lines_of(stdout: str) -> list[str]:
    """The lines of all ranks, without their prefixes."""
    return sorted(line.partition(" | ")[2] for line in stdout.splitlines())


def skip_requeue_delay(lab: Lab, job: str) -> None:
    """Start a requeued job now: Slurm delays it by the lifetime of its credentials, 120 s."""
    queued = _QUEUED_AGAIN.format(job=job, seconds=QUEUED_FOR_S)
    wait_until(lambda: lab["n1"].run("sh", "-c", queued, check=False).ok, "the job is in the queue again")

    def has_left_the_queue() -> bool:
        lab["n1"].run("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)
        return state(lab, job) != "PENDING"

    wait_until(has_left_the_queue, "the job has left the queue")


@contextlib.contextmanager
def failed(lab: Lab, name: str) -> Iterator[None]:
    """The slurmd of the node `name` has ended, and Slurm counts the node as failed, during this block."""
    lab[name].run("systemctl", "kill", "--signal=KILL", "slurmd")
    lab["n1"].run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=story")
    try:
        yield
    finally:
        lab[name].run("systemctl", "restart", "slurmd")
        # Unless it has registered again already.
        lab["n1"].run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)


@contextlib.contextmanager
def attached(lab: Lab, run: str, out: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Attach to `run` with this stdout and stderr."""
    environment = {**os.environ, **lab.environment}
    following = subprocess.Popen(lab.command("attach", run), env=environment, stdout=out, stderr=out)
    try:
        yield following
    finally:
        following.kill()
        following.wait()
