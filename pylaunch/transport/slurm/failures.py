"""Reasons why srun did not run a command, from its own words. Pure."""

import re

from pylaunch.model.slurm_job import end_of_job
from pylaunch.transport.connector import ConnectionFailure

_OVER = re.compile(
    r"Invalid job id|already completing or completed|Job has been revoked|Job is no longer|has expired"
    r"|Job is pending execution|Job/step is pending"
)
_REMOVED = re.compile(r"Unable to create step .*Requested node configuration is not available|Node failure on ")
"""A step on one node that uses nothing of the job is refused only when the job does not have that node any more."""

_CONTROLLER = re.compile(
    r"Unable to contact slurm controller|Unable to confirm allocation|Slurm controller not|connect failure"
)
_MUNGE = re.compile(r"[Mm]unge|Protocol authentication error|Authentication")
_LINE = re.compile(r"^(?:srun|sbatch|squeue|scontrol|scancel|slurmstepd): (error: |fatal: )?(.*)")
_NOISE = re.compile(
    r"task \d+: (?:Exited with exit code|Killed|Terminated)|lacks support for cpu binding|launch/slurm: _task_finish"
)


def own_words(stderr: str) -> str:
    """Return the last error that a Slurm command printed, without its prefix; its first line where it has none."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and not _NOISE.search(line)]
    found = [match for line in lines if (match := _LINE.match(line))]
    if errors := [match[2] for match in found if match[1]]:
        return errors[-1]
    return found[0][2] if found else next(iter(lines), "no output")


def explained(text: str, hint: str | None) -> ConnectionFailure:
    """Return a failure with the words of Slurm, and the hint for the causes that have one; else `hint`."""
    words = own_words(text)
    if _MUNGE.search(text):
        return ConnectionFailure(
            words, "the authentication of Slurm fails: systemctl status munge; date, here and there"
        )
    if _CONTROLLER.search(text):
        return ConnectionFailure(words, "scontrol ping shows whether slurmctld answers")
    return ConnectionFailure(words, hint)


def step_failure(job: str, host: str, stderr: str) -> ConnectionFailure:
    """Return why srun did not run a step of `job` on `host`."""
    if _OVER.search(stderr):
        return ConnectionFailure(end_of_job(job), f"scontrol show job {job} shows its end", is_final=True)
    if _REMOVED.search(stderr):
        return ConnectionFailure(
            f"Slurm has removed {host} from job {job}, as it does with a node that failed",
            f"scontrol show node {host} shows its state and the reason",
            is_final=True,
        )
    failure = explained(stderr, f"scontrol show node {host} shows its state")
    return ConnectionFailure(f"srun: {failure.reason}", failure.hint)
