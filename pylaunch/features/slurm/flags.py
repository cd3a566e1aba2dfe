"""Flags of `start` that take the nodes from Slurm."""

import re
from collections.abc import Mapping
from enum import Enum

from pylaunch.base.dataclass import dataclass, fields
from pylaunch.errors import UsageError
from pylaunch.inventory.settings import SETTINGS, Settings
from pylaunch.model.slurm_job import JobRequest
from pylaunch.model.text.argv import Argv
from pylaunch.terminal.option import Group, InJobFile, Option

AUTO, NONE, SLURM = "auto", "none", "slurm"
JOB_ID = "SLURM_JOB_ID"
STEP_TASKS = "SLURM_STEP_NUM_TASKS"
PTY = "SLURM_PTY_PORT"
"""Set in the step of a shell (srun --pty), which runs in one of its tasks only."""

COMPONENTS = "SLURM_HET_SIZE"
"""Number of components of a heterogeneous job; absent in others."""

FIRST_COMPONENT = "SLURM_JOB_ID_HET_GROUP_0"
"""Id of the first component of a heterogeneous job, by which Slurm knows the others."""

NODES = r"SLURM_JOB_NODELIST(?:_HET_GROUP_\d{1,3})?"

OPTIONS = (
    Option(
        name="scheduler", group=Group.SLURM, choices=(AUTO, SLURM, NONE), default=AUTO, in_job_file=InJobFile.WHOLE,
        help="slurm submits a job and starts on its nodes; auto: in a Slurm job its nodes, else the inventory's hosts.",
    ),
    Option(
        name="partition", group=Group.SLURM, metavar="NAME", in_job_file=InJobFile.NONE,
        help="Slurm: partition.",
    ),
    Option(
        name="time", group=Group.SLURM, metavar="TIME", in_job_file=InJobFile.NONE,
        help="Slurm: time limit, such as 4:00:00 or 2-00:00:00.",
    ),
    Option(
        name="sbatch_arg", group=Group.SLURM, multiple=True, default=(), metavar="OPTION",
        in_job_file=InJobFile.NONE,
        help="Slurm: a further option of sbatch, --mem=0. Repeatable.",
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SchedulerFlags:
    """Values of OPTIONS."""

    scheduler: str = AUTO
    partition: str | None = None
    time: str | None = None
    sbatch_arg: tuple[str, ...] = ()


class NodeSource(Enum):
    """Sources of the nodes of a start."""

    INVENTORY = "inventory"
    SUBMIT = "submit"
    """A Slurm job that this start submits."""

    HERE = "here"
    """The Slurm job in which pylaunch runs."""


_OF_SBATCH = tuple(each.name for each in fields(SchedulerFlags) if each.name != "scheduler")


def node_source(
    flags: SchedulerFlags, settings: Settings, environment: Mapping[str, str], *, has_inventory: bool
) -> NodeSource:
    """Return where the nodes of a start are from; `has_inventory` says that the command line names one.

    Raises UsageError for flags that contradict each other.
    """
    if settings.scheduler not in (None, SLURM, NONE):
        raise UsageError(
            f'{SETTINGS}: scheduler: expected "{SLURM}" or "{NONE}", got {settings.scheduler!r}',
            hint='scheduler = "slurm"',
        )
    typed = [name for name in _OF_SBATCH if getattr(flags, name)]
    job = environment.get(JOB_ID)
    wants = flags.scheduler
    if wants == AUTO and not job:
        wants = SLURM if settings.scheduler == SLURM and not has_inventory else NONE
    source = NodeSource.INVENTORY if wants == NONE else NodeSource.HERE if job else NodeSource.SUBMIT
    if source is NodeSource.SUBMIT and has_inventory:
        raise UsageError(
            "--scheduler slurm together with an inventory: Slurm chooses the nodes of a job that pylaunch submits",
            hint="omit the inventory, or name the nodes: --sbatch-arg=--nodelist=n1,n2",
        )
    if typed and source is NodeSource.INVENTORY:
        raise UsageError(f"{_option(typed[0])} has no effect without Slurm", hint="--scheduler slurm")
    if typed and source is NodeSource.HERE:
        raise UsageError(
            f"{_option(typed[0])} has no effect in Slurm job {job}, whose nodes are there already",
            hint=f"omit it, or submit another job: env -u {JOB_ID} pylaunch start --scheduler slurm …",
        )
    if source is NodeSource.HERE and environment.get(STEP_TASKS, "1") != "1" and PTY not in environment:
        raise UsageError(
            f"srun starts pylaunch {environment[STEP_TASKS]} times in Slurm job {job}, and each would start the run",
            hint="omit srun: pylaunch itself starts the ranks on all nodes of the job",
        )
    return source


def jobs_here(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the id of the Slurm job of this shell, or the ids of its components; empty outside of a job.

    Raises UsageError for a number of components that is none.
    """
    job, size = environment.get(JOB_ID), environment.get(COMPONENTS)
    if not job or not size:
        return (job,) if job else ()
    first = environment.get(FIRST_COMPONENT, job)
    if not re.fullmatch(r"[1-9]\d{0,2}", size):
        raise UsageError(f"{COMPONENTS}={size}: expected the number of components of Slurm job {first}")
    return tuple(f"{first}+{each}" for each in range(int(size)))


def nodes_here(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the nodes of the job of this shell, or of each of its components, as lists of Slurm: "n[1-3]"."""
    return tuple(dict.fromkeys(nodes for name, nodes in environment.items() if re.fullmatch(NODES, name) and nodes))


def request(flags: SchedulerFlags, settings: Settings, nodes: int | None, spares: int) -> JobRequest:
    """Return the job to submit. Raises UsageError without a number of nodes, and for settings that are no options."""
    if nodes is None or nodes < 1:
        raise UsageError("--scheduler slurm needs the number of nodes", hint="--nodes 4")
    if spares < 0:
        raise UsageError("--spares: expected 0 or more")
    return JobRequest(nodes + spares, options=_sbatch_options(_completed(flags, settings)))


def _completed(flags: SchedulerFlags, settings: Settings) -> dict[str, object]:
    """Return the values of the flags; those of the settings where a flag was not given."""
    known = {name.replace("_", "-"): name for name in _OF_SBATCH}
    if unknown := sorted(set(settings.slurm) - set(known)):
        raise UsageError(
            f"{SETTINGS}: slurm: unknown key: {', '.join(unknown)}", hint=f"the keys are {', '.join(known)}"
        )
    return {name: getattr(flags, name) or _setting(settings, key) for key, name in known.items()}


def _setting(settings: Settings, key: str) -> object:
    value = settings.slurm.get(key)
    kind, words = (list, "a list of options") if key == "sbatch-arg" else ((str, int), "a text or a number")
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise UsageError(f"{SETTINGS}: slurm: {key}: expected {words}, got {value!r}")
    return value


_OF_A_SCRIPT = {
    "--signal": "Slurm would signal the agents of pylaunch, not the ranks",
    "--requeue": "Slurm would start the agents of the job again, and no controller with them",
}
"""Options of sbatch for jobs whose controller is in the job."""


def _sbatch_options(values: Mapping[str, object]) -> Argv:
    words = [f"{_option(name)}={value}" for name, value in values.items() if name != "sbatch_arg" and value is not None]
    further = values["sbatch_arg"] or ()
    assert isinstance(further, list | tuple)
    for word in map(str, further):
        if not word.startswith("-"):
            raise UsageError(f"--sbatch-arg {word}: expected an option of sbatch", hint="--sbatch-arg=--mem=0")
        name = word.partition("=")[0]
        if name in _OF_A_SCRIPT:
            raise UsageError(
                f"--sbatch-arg {word}: {_OF_A_SCRIPT[name]}",
                hint="a job script with it, which ends with: exec pylaunch start … (pylaunch help slurm)",
            )
        words.append(word)
    return tuple(words)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
