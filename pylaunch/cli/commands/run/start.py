"""`pylaunch start`: plan, prepare, start together, follow to the end."""

from pathlib import Path
from typing import Any

import click

from pylaunch import features
from pylaunch.errors import UsageError
from pylaunch.terminal import options
from pylaunch.terminal.doors import imported
from pylaunch.terminal.flags.start import StartFlags, options_of, to_repeat
from pylaunch.terminal.option import GroupedCommand, added

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
    del given["as_json"]  # The invocation has it.
    request = to_repeat(given, OPTIONS)
    observers = features.observers(given)
    of_run = observers()
    source = features.start_source(given, has_inventory=inventory is not None)
    typed = StartFlags(in_job=features.job_changes(given), request=request, **given)
    if (file := features.start_file(typed.words)) is not None:
        if source is not None and not source.is_inventory:
            hint = "on hosts of an inventory over SSH: pylaunch start --scheduler none -i cluster.ini …"
            raise UsageError(
                f"{typed.words[0]}: its nodes are those of an inventory, and here they are Slurm's", hint=hint
            )
        started: int = imported(file.module).started(typed, inventory, limit, features.judge_settings, observers)
        return started
    late = imported("pylaunch.cli.planning")  # During these 300 ms, Slurm answers and its agents load.
    code: int = late.plan_and_run(typed, source, inventory, limit, of_run)
    return code
