"""Flags of `start` that take the nodes from Slurm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import TypeVar

import click

from pylaunch.errors import UsageError
from pylaunch.inventory.settings import SETTINGS, Settings
from pylaunch.model.argv import Argv
from pylaunch.model.slurm_job import JobRequest

F = TypeVar("F", bound=Callable[..., object])
AUTO, NONE, SLURM = "auto", "none", "slurm"
JOB_ID = "SLURM_JOB_ID"
COMPONENTS = "SLURM_HET_SIZE"
"""Number of components of a heterogeneous job; absent in others."""

_OPTIONS = (
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


class NodeSource(Enum):
    """Sources of the nodes of a start."""

    INVENTORY = "inventory"
    SUBMIT = "submit"
    """A Slurm job that this start submits."""

    HERE = "here"
    """The Slurm job in which pylaunch runs."""


_OF_SLURM = tuple(each.name for each in fields(SchedulerFlags) if each.name != "scheduler")


def options(command: F) -> F:
    """Add the flags."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


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
    if typed and source is NodeSource.INVENTORY:
        raise UsageError(f"{_option(typed[0])} has no effect without Slurm", hint="--scheduler slurm")
    if source is NodeSource.HERE and (components := environment.get(COMPONENTS)):
        raise UsageError(
            f"Slurm job {job} is heterogeneous: it has {components} components, and a start takes the nodes of one job",
            hint="a job of one component, whose nodes may have different devices; or connect over SSH: "
            f"--scheduler {NONE} -i cluster.ini",
        )
    if typed and source is NodeSource.HERE:
        raise UsageError(
            f"{_option(typed[0])} has no effect in Slurm job {job}, whose nodes are there already",
            hint=f"omit it, or submit another job: env -u {JOB_ID} pylaunch start --scheduler slurm …",
        )
    return source


def request(flags: SchedulerFlags, settings: Settings, nodes: int | None, spares: int) -> JobRequest:
    """Return the job to submit. Raises UsageError without a number of nodes, and for settings that are no options."""
    if nodes is None or nodes < 1:
        raise UsageError("--scheduler slurm needs the number of nodes", hint="--nodes 4")
    if spares < 0:
        raise UsageError("--spares: expected 0 or more")
    return JobRequest(nodes + spares, options=_sbatch_options(_completed(flags, settings)))


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
        words.append(word)
    return tuple(words)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
