"""The connector of hosts of a Slurm job: each command is a step beside all others.

Most SLURM_ variables are options of srun, too. Those that this process inherited, from a shell in an allocation or a
job script, are removed, so that a step depends only on its command line.
"""

import os
import re
from collections.abc import Iterable, Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import JOB_VARIABLE
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.slurm_job import end_of_job
from pylaunch.model.text.argv import Argv
from pylaunch.transport.connector import ConnectionFailure, Connector
from pylaunch.transport.process import Completed

FAILED = 254
"""Exit status of srun when srun itself fails; the agent never exits with it."""

WAITS_S = 30
"""Seconds that srun may wait until a step can begin."""

_INPUTS = ("SLURM_", "SRUN_", "PMI_", "PMIX_", "OMPI_", "PRTE_")
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT")

_STEP: Argv = (
    "--overlap", "--ntasks-per-node=1", "--mem=0", "--cpu-bind=none", "--gpu-bind=none", "--mpi=none", "--no-kill",
    "--kill-on-bad-exit=0", "--wait=0", f"--immediate={WAITS_S}", "--chdir=/", "--quiet",
)  # fmt: skip


def without_inputs(environment: Mapping[str, str] | None = None) -> Argv:
    """Return the `env` command that removes variables of `environment` (None: this process's) which srun would obey."""
    inherited = os.environ if environment is None else environment
    removed = sorted(name for name in inherited if name.startswith(_INPUTS) and name not in _KEPT)
    return ("env", *(word for name in removed for word in ("-u", name)), f"SLURM_EXIT_ERROR={FAILED}")


def step(
    job: str, hosts: Iterable[str], words: Argv, *, gpus: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Argv:  # fmt: skip
    """Return the command line that runs `words` once on each of `hosts`, nodes of `job`, and carries stdin and output.

    `gpus` are those of all hosts together; None requests those of the job. The exit status is the highest of all hosts.
    """
    names = tuple(hosts)
    some = () if gpus is None else (f"--gpus={gpus}" if gpus else "--gres=none",)
    return (
        *without_inputs(environment),
        "srun",
        f"--nodelist={','.join(names)}",
        *_words(job, str(len(names))),
        *some,
        "--",
        *words,
    )


def step_of_script(job: str, nodes: str, overlap: str) -> str:
    """Return the shell words that begin a step on all nodes of a job, from shell words for its id and node count.

    `overlap` are those in place of --overlap.
    """
    words = (overlap if word == "--overlap" else word for word in _words(job, nodes))
    return " ".join(("srun", *words, "--"))


def _words(job: str, nodes: str) -> Argv:
    export = f"--export=ALL,{JOB_VARIABLE}={job}"
    return (f"--jobid={job}", f"--nodes={nodes}", f"--ntasks={nodes}", *_STEP, export)


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


@dataclass(frozen=True)
class SlurmConnector(Connector):
    """The `Connector` of a node of a Slurm job. Slurm starts commands without a login or a shared connection."""

    identity = None

    @property
    def job(self) -> str:
        """Id of the job. Raises ClusterNotReadyError for a host without one."""
        if self.host.slurm_job is None:
            raise ClusterNotReadyError(f"{self.host.name} belongs to no Slurm job, so it is not connected to")
        return self.host.slurm_job

    def argv(self, words: Argv, *, shared: bool = True) -> Argv:
        """Return the srun command that runs `words` as a step of its own."""
        return step(self.job, (self.host.name,), words, gpus=self.host.slurm_gpus)

    def failure(self, ended: Completed) -> ConnectionFailure | None:
        """Explain srun's own failures."""
        return step_failure(self.job, self.host.name, ended.stderr) if ended.returncode == FAILED else None

    def timed_out(self, within_s: float) -> ConnectionFailure:
        """Return the failure to report for a host that sent nothing within `within_s` seconds."""
        return ConnectionFailure(
            f"srun on {self.host.name}: no answer within {within_s:.0f} s",
            f"scontrol show node {self.host.name} shows its state",
        )

    def ansible_variables(self) -> Mapping[str, str]:
        """Raise ClusterNotReadyError: Ansible has no connection through srun."""
        raise ClusterNotReadyError(
            f"{self.host.name} is reached through Slurm job {self.job}, and Ansible cannot use that",
            hint="an inventory with SSH hosts: -i cluster.ini --scheduler none",
        )
