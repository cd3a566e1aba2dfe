"""`pylaunch render slurm job.toml`: plan the roles of a job file, and write them as one script for sbatch."""

import uuid
from collections.abc import Sequence
from pathlib import Path

import click

from pylaunch.base.dataclass import fields, replace
from pylaunch.errors import UsageError
from pylaunch.features import job_option_names, judge_settings
from pylaunch.features.job.job_file import JobFile
from pylaunch.features.job.placement import placed, with_ports
from pylaunch.features.job.sbatch_script import Expansions, RoleScript, in_job, places_in_job, refused, refused_variable
from pylaunch.features.job.starting import DRY_RUN_PORTS, flags_of_roles, given_here, planned_parts, read_job
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.model.secret import refuse_secrets
from pylaunch.render import srun
from pylaunch.terminal.doors import SbatchScript
from pylaunch.terminal.flags.start import StartFlags
from pylaunch.terminal.flags.sync import SyncFlags

IN_SCRIPT = frozenset({
    "env", "env_file", "secret", "secret_file", "nproc_per_node", "framework", "module", "workdir", "python", "port",
    "interface", "grace",
})  # fmt: skip
"""Options of a role that a script keeps. The others check, watch, restart or report a run, and the script names them;
those of --sync are refused."""

NOT_IN_SCRIPT = (
    "This script has no checks before the start, no common instant of release, no restart of a replica, no verdict and "
    "no proof that nodes are clean; pylaunch start has all of these"
)


def sbatch_script(
    flags: StartFlags, inventory: Path | None, limit: str | None, elsewhere: frozenset[str], options: tuple[str, ...]
) -> SbatchScript:
    """Return the script of the job file that the first of the words names. Raises UsageError for what it cannot keep.

    Flags `elsewhere` are no flags of a start; `options` are those of sbatch.
    """
    context = click.get_current_context()
    defaults = given_here(context, elsewhere)
    if others := sorted(defaults.keys() - IN_SCRIPT):
        raise UsageError(f"--{others[0].replace('_', '-')}: not for a script of several roles", hint="omit it")
    job, left_out = _kept(read_job(flags.words))
    cluster = load_cluster(inventory, limit=limit)
    parts = placed(job, cluster, lambda pattern: cluster.names)
    with_ports(parts, {host.rank_address: DRY_RUN_PORTS for host in cluster.hosts})  # Refuses a number used twice.
    names = [name for name in cluster.names if any(name in part.cluster.names for part in parts)]
    _refuse_unequal(cluster, names)
    expansions = Expansions(uuid.uuid4().hex)
    there = in_job(parts, names, expansions)
    everywhere = {**places_in_job(there), "job": expansions.of("SLURM_JOB_ID")}
    of_roles = flags_of_roles(job, _start(context), defaults, lambda _: lambda job: job)
    planned = planned_parts(job, [each.part for each in there], everywhere, of_roles, judge_settings)
    for each in planned:
        try:
            refuse_secrets(each.planned.plan.job.command, each.planned.plan.job.env)
        except UsageError as error:
            error.message = f"[roles.{each.part.role.name}] {error.message}"
            raise
        if name := refused_variable((*each.planned.plan.job.env, *each.planned.plan.job.secrets)):
            raise UsageError(
                f"[roles.{each.part.role.name}] {name}: the script has a variable of this name",
                hint="another name; a program that needs this one gets it by env NAME=VALUE in its command line",
            )
    plans = {each.part.name: each.planned.plan for each in planned}
    differing = sorted({name for plan in plans.values() for name in srun.variables(plan)[1]})
    remarks = (
        NOT_IN_SCRIPT,
        *([f"Left out, because it needs pylaunch on the nodes: {'; '.join(left_out)}"] if left_out else []),
        *([f"Left out, because the inventory has different values: {', '.join(differing)}"] if differing else []),
        "Slurm chooses the nodes and devices; ports follow from the job id, so that jobs on one node differ",
    )
    made = RoleScript(job, there, plans, [cluster[name] for name in names], options, remarks, expansions)
    return SbatchScript(f"{made.label}.sbatch", made.text(), remarks, made.secrets)


def _kept(job: JobFile) -> tuple[JobFile, list[str]]:
    """Return the job with the options that a script keeps, and the others as the file has them. Raises UsageError."""
    left_out: dict[str, list[str]] = {}
    roles = []
    for role in job.roles:
        shipped = [name for name in role.options if name in {each.name for each in fields(SyncFlags)} - IN_SCRIPT]
        found = refused(role)
        if shipped:
            key = shipped[0].replace("_", "-")
            found = (
                f"{key} = {role.options[shipped[0]]!r}: a script for Slurm ships no files",
                "omit it; workdir = DIR names a directory of a file system that all nodes have",
            )
        if of_features := [name for name in role.options if name in job_option_names()]:
            key = of_features[0].replace("_", "-")
            found = f"{key} = {role.options[of_features[0]]!r}: needs pylaunch on the nodes", "pylaunch start"
        if found is not None:
            raise UsageError(f"[roles.{role.name}] {found[0]}", hint=found[1])
        kept = {name: value for name, value in role.options.items() if name in IN_SCRIPT}
        for name, value in role.options.items():
            if name not in kept:
                left_out.setdefault(f"{name.replace('_', '-')} = {value!r}", []).append(role.name)
        roles.append(replace(role, options=kept))
    return replace(job, roles=tuple(roles)), [f"{key} of {', '.join(names)}" for key, names in left_out.items()]


def _refuse_unequal(cluster: Cluster, names: Sequence[str]) -> None:
    counts = {len(cluster[name].devices): name for name in names}
    if len(counts) > 1:
        raise UsageError(
            "the hosts of the roles have different numbers of devices, and a script requests the same for each node",
            evidence=[f"{name}: {count} devices" for count, name in counts.items()],
            hint="--limit PATTERN takes hosts that have as many",
        )


def _start(context: click.Context) -> click.Command:
    """Return `start`, whose options are keys of a role."""
    root = context.find_root()
    command = root.command.get_command(root, "start") if isinstance(root.command, click.Group) else None
    assert command is not None
    return command
