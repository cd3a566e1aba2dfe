"""Command lines of srun: steps that share the resources of a job with all other steps, and wait for nothing.

Most SLURM_ variables are options of srun, too. Those that this process inherited, from a shell in an allocation or a
job script, are removed, so that a step depends only on its command line.
"""

import os
from collections.abc import Iterable, Mapping

from pylaunch.base.layout import JOB_VARIABLE
from pylaunch.model.text.argv import Argv

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
    component = job.partition("+")[2]
    where = (f"--nodelist={','.join(names)}", *((f"--het-group={component}",) if component else ()))
    some = () if gpus is None else (f"--gpus={gpus}" if gpus else "--gres=none",)
    return (*without_inputs(environment), "srun", *where, *_words(leader(job), str(len(names))), *some, "--", *words)


def leader(job: str) -> str:
    """Return the id of the first component of `job`: the one that steps and their agents know it by."""
    return job.partition("+")[0]


def step_of_script(job: str, nodes: str, overlap: str) -> str:
    """Return the shell words that begin a step on all nodes of a job, from shell words for its id and node count.

    `overlap` are those in place of --overlap.
    """
    words = (overlap if word == "--overlap" else word for word in _words(job, nodes))
    return " ".join(("srun", *words, "--"))


def _words(job: str, nodes: str) -> Argv:
    export = f"--export=ALL,{JOB_VARIABLE}={job}"
    return (f"--jobid={job}", f"--nodes={nodes}", f"--ntasks={nodes}", *_STEP, export)
