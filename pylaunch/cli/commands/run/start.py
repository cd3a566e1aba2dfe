"""`pylaunch start`: plan, prepare, start together, follow to the end."""

import contextlib
import os
from pathlib import Path
from typing import Any

import click

from pylaunch import features
from pylaunch.base.dataclass import replace
from pylaunch.cli.views import plan
from pylaunch.errors import ExitCode, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.render import plan_start
from pylaunch.store import runs
from pylaunch.terminal import console, document, options
from pylaunch.terminal.doors import NodesWanted, StartNodes
from pylaunch.terminal.flags.start import StartFlags, options_of, requested
from pylaunch.terminal.options import GroupedCommand, added

EXAMPLES = """\b
Examples:
  pylaunch start -i cluster.ini -- train.py --epochs 3
  pylaunch start -i cluster.ini --nodes 2 --nproc-per-node 4 --env NCCL_DEBUG=WARN -- train.py
  pylaunch start -i cluster.ini --sync . -m package.train --lr 3
  pylaunch start -i cluster.ini -- hostname
  pylaunch start -i cluster.ini job.toml
  pylaunch start --scheduler slurm --nodes 4 --time 8:00:00 -- train.py
"""


OPTIONS = (*options_of("start"), *features.options("start"))


@click.command(cls=GroupedCommand, context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@options.inventory
@options.limit
@added(OPTIONS)
@options.as_json
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- SCRIPT [ARGS]...")
def command(inventory: Path | None, limit: str | None, **given: Any) -> int:
    """Start SCRIPT on all nodes at the same moment, follow it, and report how it ended.

    SCRIPT may be another launcher's line (torchrun, accelerate launch, deepspeed): what maps to pylaunch is taken over.
    A job file (job.toml) starts several roles, each with its own program: see pylaunch help roles.

    Every node is prepared first; if one refuses, nothing starts and all reasons are shown. The first failing rank
    stops all others. Ctrl-C stops the run cleanly, a second one kills it.
    """
    as_json = given.pop("as_json")
    if as_json and not given["dry_run"]:
        document.begin_stream()
    observers = features.observers(given)
    of_run = observers()
    source = features.start_source(given, has_inventory=inventory is not None)
    in_job = features.job_changes(given)
    typed = StartFlags(**given)
    if (file := features.start_file(typed.words)) is not None:
        if source is not None:
            hint = "on hosts of an inventory over SSH: pylaunch start --scheduler none -i cluster.ini …"
            raise UsageError(
                f"{typed.words[0]}: its nodes are those of an inventory, and here they are Slurm's", hint=hint
            )
        started: int = features.imported(file.module).started(typed, inventory, limit, observers)
        return started
    asked = requested(typed, os.environ)
    asked = replace(asked, job=in_job(asked.job))
    flags = asked.flags
    wanted = NodesWanted(inventory, limit, flags.nodes, flags.spares, flags.dry_run)
    with contextlib.ExitStack() as stack:
        if source is None:
            nodes = StartNodes(load_cluster(inventory, limit=limit))
        else:
            nodes = stack.enter_context(source.nodes(wanted, asked.job))
        if source is None and not nodes.cluster.sources:
            console.say("no inventory, so this machine alone; others: -H gpu01,gpu02, or pylaunch init 'gpu[01-02]'")
        planned = plan_start(nodes.cluster, asked.job, runs.new_run_id(), console.say)
        planned = replace(planned, plan=replace(planned.plan, submitted_job=nodes.submitted_job))
        features.refuse_variables(planned, console.say)
        if flags.dry_run:
            document.show({"plan": plan.as_json(planned)})
            if not as_json:
                plan.show(planned, plan.inventory_line(inventory) if source is None else None)
            return ExitCode.DONE
        running = features.imported("pylaunch.cli.running")  # 100 ms that a plan which is only printed does not need.
        code: int = running.run_planned(
            planned, asked.options(), running.Presentation(flags.detach, as_json, of_run, nodes.end)
        )
        return code
