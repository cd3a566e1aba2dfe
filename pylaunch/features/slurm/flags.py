"""Flags of `start` that take the nodes from Slurm."""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum

import click

from pylaunch.base.dataclass import dataclass, fields
from pylaunch.errors import UsageError
from pylaunch.inventory.settings import SETTINGS, Settings
from pylaunch.model.slurm_job import JobRequest
from pylaunch.model.text.argv import Argv
from pylaunch.runs.follow.job_time import REQUEUE_S
from pylaunch.terminal.options import together

AUTO, NONE, SLURM = "auto", "none", "slurm"
JOB_ID = "SLURM_JOB_ID"
RESTART_COUNT = "SLURM_RESTART_COUNT"
STEP_TASKS = "SLURM_STEP_NUM_TASKS"
PTY = "SLURM_PTY_PORT"
"""Set in the step of a shell (srun --pty), which runs in one of its tasks only."""

COMPONENTS = "SLURM_HET_SIZE"
"""Number of components of a heterogeneous job; absent in others."""

FIRST_COMPONENT = "SLURM_JOB_ID_HET_GROUP_0"
"""Id of the first component of a heterogeneous job, by which Slurm knows the others."""

NODES = r"SLURM_JOB_NODELIST(?:_HET_GROUP_\d{1,3})?"

SIGNALS = ("USR1", "USR2", "TERM")
USUAL_NOTICE_S = 120.0
LEAST_NOTICE_S = 10.0
"""slurmctld enforces time limits with a delay, and squeue prints whole seconds."""

options = together(
    click.option(
        "--scheduler", type=click.Choice([AUTO, SLURM, NONE]), default=AUTO, show_default=True,
        help="slurm submits a job and starts on its nodes; auto: in a Slurm job its nodes, else the inventory's hosts.",
    ),
    click.option("--partition", metavar="NAME", help="Slurm: partition."),
    click.option("--time", metavar="TIME", help="Slurm: time limit, such as 4:00:00 or 2-00:00:00."),
    click.option("--account", metavar="NAME", help="Slurm: account to charge."),
    click.option("--qos", metavar="NAME", help="Slurm: quality of service."),
    click.option("--constraint", metavar="LIST", help="Slurm: features that the nodes must have."),
    click.option("--gres", metavar="LIST", help="Slurm: generic resources of each node, such as gpu:8."),
    click.option("--gpus-per-node", metavar="N", help="Slurm: GPUs of each node, such as 8 or h100:8."),
    click.option("--exclusive", is_flag=True, help="Slurm: share the nodes with no other job."),
    click.option(
        "--sbatch-arg", multiple=True, metavar="OPTION", help="Slurm: a further option of sbatch, --mem=0. Repeatable."
    ),
    click.option(
        "--max-requeues", type=int, default=0, metavar="N",
        help="Slurm: at the time limit or after a preemption, continue in the queue again, up to N times.",
    ),
    click.option(
        "--checkpoint-before-end", type=float, metavar="SECONDS",
        help="Slurm: signal the ranks this long before the time limit.  [default: 120 with --max-requeues, else never]",
    ),
    click.option(
        "--checkpoint-signal", type=click.Choice(SIGNALS), default=SIGNALS[0], show_default=True,
        help="Slurm: the signal after which ranks save a checkpoint and exit with code 0.",
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SchedulerFlags:
    """Flags of `options`, as click parsed them."""

    scheduler: str = AUTO
    partition: str | None = None
    time: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gres: str | None = None
    gpus_per_node: str | None = None
    exclusive: bool = False
    sbatch_arg: tuple[str, ...] = ()
    max_requeues: int = 0
    checkpoint_before_end: float | None = None
    checkpoint_signal: str = SIGNALS[0]

    def notice(self, stop_grace: timedelta) -> timedelta | None:
        """Return the time before the end of the job at which ranks are signalled; None for never.

        Raises UsageError for a time that is too short, and for a negative number of requeues.
        """
        if self.max_requeues < 0:
            raise UsageError(f"--max-requeues {self.max_requeues}: expected 0 or more")
        seconds = self.checkpoint_before_end
        if seconds is None:
            if not self.max_requeues:
                return None
            seconds = USUAL_NOTICE_S
        least = stop_grace.total_seconds() + REQUEUE_S if self.max_requeues else LEAST_NOTICE_S
        if not least < seconds <= 86400:
            of = "--grace and the requeue need" if self.max_requeues else "Slurm needs"
            raise UsageError(
                f"--checkpoint-before-end {seconds:g}: expected more than {least:g} s, which {of}, and at most 86400",
                hint=f"--checkpoint-before-end {max(USUAL_NOTICE_S, 2 * least):g}",
            )
        return timedelta(seconds=seconds)


class NodeSource(Enum):
    """Sources of the nodes of a start."""

    INVENTORY = "inventory"
    SUBMIT = "submit"
    """A Slurm job that this start submits."""

    HERE = "here"
    """The Slurm job in which pylaunch runs."""


_OF_RUN = ("max_requeues", "checkpoint_before_end")
_OF_ANY_START = ("scheduler", "checkpoint_signal", *_OF_RUN)
_OF_SLURM = tuple(each.name for each in fields(SchedulerFlags) if each.name not in _OF_ANY_START)


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
    typed = [name for name in _OF_SLURM if getattr(flags, name)]
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
    of_run = [name for name in _OF_RUN if getattr(flags, name)]
    if (typed or of_run) and source is NodeSource.INVENTORY:
        raise UsageError(f"{_option([*typed, *of_run][0])} has no effect without Slurm", hint="--scheduler slurm")
    if typed and source is NodeSource.HERE:
        raise UsageError(
            f"{_option(typed[0])} has no effect in Slurm job {job}, whose nodes are there already",
            hint=f"omit it, or submit another job: env -u {JOB_ID} pylaunch start --scheduler slurm …",
        )
    if source is NodeSource.HERE and environment.get(STEP_TASKS, "1") != "1" and PTY not in environment:
        raise UsageError(
            f"srun starts pylaunch {environment[STEP_TASKS]} times in Slurm job {job}, and each would start the run",
            hint="pylaunch without srun: it starts the ranks on all nodes of the job",
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
    options = _sbatch_options(_completed(flags, settings))
    return JobRequest(nodes + spares, options=options, may_requeue=flags.max_requeues > 0)


def _completed(flags: SchedulerFlags, settings: Settings) -> dict[str, object]:
    """Return the values of the flags; those of the settings where a flag was not given."""
    known = {name.replace("_", "-"): name for name in _OF_SLURM}
    if unknown := sorted(set(settings.slurm) - set(known)):
        raise UsageError(
            f"{SETTINGS}: slurm: unknown key: {', '.join(unknown)}", hint=f"the keys are {', '.join(known)}"
        )
    return {name: getattr(flags, name) or _setting(settings, key) for key, name in known.items()}


def _setting(settings: Settings, key: str) -> object:
    value = settings.slurm.get(key)
    expected = {"exclusive": (bool, "true or false"), "sbatch-arg": (list, "a list of options")}
    kind, words = expected.get(key, ((str, int), "a text or a number"))
    is_bool = isinstance(value, bool)
    if value is not None and (not isinstance(value, kind) or (is_bool and key != "exclusive")):
        raise UsageError(f"{SETTINGS}: slurm: {key}: expected {words}, got {value!r}")
    return value


def _sbatch_options(values: Mapping[str, object]) -> Argv:
    words = []
    for name, value in values.items():
        if name == "sbatch_arg":
            continue
        if name == "exclusive":
            words += ["--exclusive"] if value else []
        elif value is not None:
            words.append(f"{_option(name)}={value}")
    further = values["sbatch_arg"] or ()
    assert isinstance(further, list | tuple)
    for word in map(str, further):
        if not word.startswith("-"):
            raise UsageError(f"--sbatch-arg {word}: expected an option of sbatch", hint="--sbatch-arg=--mem=0")
        if word.startswith("--signal") and not word.startswith("--signal=B:"):
            raise UsageError(
                f"--sbatch-arg {word}: Slurm would signal the agents of pylaunch, not the ranks",
                hint="--checkpoint-before-end 120 --checkpoint-signal USR1",
            )
        words.append(word)
    return tuple(words)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
