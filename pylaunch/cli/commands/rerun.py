"""`pylaunch rerun`: start again what a run was, under a new id."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from pylaunch.cli import console
from pylaunch.cli.at_start import at_start_checks
from pylaunch.cli.flags import environment, options, sync, variables
from pylaunch.cli.flags.resolve_run import find
from pylaunch.cli.running import StartOptions, run_with_document
from pylaunch.errors import UsageError
from pylaunch.launch.start.payload import Payload
from pylaunch.model.argv import quoted_with_env
from pylaunch.model.plan import plan_run
from pylaunch.render import render
from pylaunch.store import runs


@click.command()
@options.run
@options.nodes_know
@click.option("--detach", is_flag=True, help="Return when the ranks run; pylaunch attach follows them again.")
@options.as_json
def command(run: str | None, *, inventory: Path | None, detach: bool, as_json: bool) -> int:
    """Start the job of RUN (the only live one without) again: same command, options and hosts, a new run id."""
    record = find(run, inventory)
    if record.is_foreign:
        raise UsageError(
            f"run {record.plan.run} was started by another controller, and what nodes say is not run",
            hint=f"rerun it there, or look at its command (pylaunch status {record.plan.run}) and start that",
        )
    before = record.plan
    job = before.job
    tree = sync.again(job.sync) if job.sync is not None else None
    if tree is not None and job.sync is not None:
        job = replace(job, sync=sync.as_asked(tree, job.sync.excludes, job.sync.includes))
    cargo = Payload(environment.again(job.secrets, os.environ), tree)
    everybody = replace(before.cluster, hosts=(*before.cluster.hosts, *before.spares))
    plan = plan_run(everybody, job, runs.new_run_id())
    commands = render(plan)
    variables.check_plan(plan, commands)
    console.say(f"rerun of {before.run}: {quoted_with_env(job.env, job.command)}, in {job.workdir}")
    manner = StartOptions(at_start_checks(), detach=detach, cargo=cargo)
    return run_with_document(plan, manner, as_json=as_json)
