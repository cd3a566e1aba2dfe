"""`pylaunch rerun`: start again what a run was, under a new id."""

import os
from pathlib import Path
from typing import Any

import click

from pylaunch import features
from pylaunch.base.dataclass import replace
from pylaunch.cli.running import Presentation, run_planned
from pylaunch.errors import UsageError
from pylaunch.model.job import TREE
from pylaunch.model.secret import is_masked, secret_options, variable_of
from pylaunch.model.text.argv import pylaunch, quoted_with_env
from pylaunch.render import plan_start
from pylaunch.store import runs
from pylaunch.terminal import console, document, options
from pylaunch.terminal.flags import sync
from pylaunch.terminal.flags.resolve_run import find
from pylaunch.terminal.flags.start import StartFlags, earlier_secrets, options_of, start_options
from pylaunch.terminal.options import added


@click.command()
@options.run
@options.nodes_know
@added((*options_of("rerun"), *features.options("rerun")))
@options.as_json
def command(run: str | None, *, inventory: Path | None, as_json: bool, **given: Any) -> int:
    """Start the job of RUN (the newest one without) again: same command, options of the job and hosts, a new run id."""
    if as_json:
        document.begin_stream()
    observers = features.observers(given)()
    flags = StartFlags(**given)
    record = find(run, inventory, newest=True)
    if record.is_foreign:
        raise UsageError(
            f"run {record.plan.run} was started by another controller, and what nodes say is not run",
            hint=f"rerun it there, or start the command that this shows: {pylaunch('status', record.plan.run)}",
        )
    before = record.plan
    if before.submitted_job is not None:
        raise UsageError(
            f"run {before.run} had the nodes of Slurm job {before.submitted_job}, which ended with it",
            hint=f"start it on nodes of another job: pylaunch start --scheduler slurm --nodes {len(before.nodes)} -- …",
        )
    job = replace(before.job, part=None)
    if is_masked(job.command):
        names = ", ".join(secret_options(job.command))
        raise UsageError(
            f"run {before.run}: the values of {names} are not recorded, because they are probably secrets",
            hint=f"start it again: pylaunch start --secret {variable_of(secret_options(job.command)[0])} … "
            "-- the command that reads this variable",
        )
    tree = sync.again(job.sync, Path(before.sources[0]) if before.sources else None) if job.sync is not None else None
    if tree is not None and job.sync is not None:
        job = replace(job, sync=sync.as_asked(tree, job.sync.excludes))
    secrets = earlier_secrets(job.secrets, os.environ)
    hosts = replace(before.cluster, hosts=(*before.cluster.hosts, *before.spares))
    planned = plan_start(hosts, job, runs.new_run_id(), console.say)
    features.refuse_variables(planned, console.say)
    workdir = job.workdir if tree is None else job.workdir.replace(TREE, f"a copy of {tree.directory}", 1)
    console.say(f"rerun of {before.run}: {quoted_with_env(job.env, job.command)}, in {workdir}")
    shown = Presentation(flags.detach, as_json, observers)
    return run_planned(planned, start_options(flags, job, secrets, tree), shown)
