"""`pylaunch start`: plan, prepare, start together, follow to the end."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click

from pylaunch import features
from pylaunch.errors import UsageError
from pylaunch.model.job import OnHang
from pylaunch.terminal import options
from pylaunch.terminal.flags.plan_options import plan_options
from pylaunch.terminal.flags.start import BESIDE_THE_JOB, LEFT_OUT, StartFlags
from pylaunch.terminal.late_import import imported
from pylaunch.terminal.option_groups import GroupedCommand

EXAMPLES = """\b
Examples:
  pylaunch start -i cluster.ini -- train.py --epochs 3
  pylaunch start -i cluster.ini --nodes 2 --nproc-per-node 4 --env NCCL_DEBUG=WARN -- train.py
  pylaunch start -i cluster.ini --sync . -m package.train --lr 3
  pylaunch start -i cluster.ini -- hostname
  pylaunch start -i cluster.ini job.toml
  pylaunch start --scheduler slurm --nodes 4 --time 8:00:00 -- train.py
"""


@click.command(cls=GroupedCommand, context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@options.inventory
@options.limit
@features.node_options
@features.job_options
@plan_options
@click.option(
    "--max-restarts",
    type=int,
    default=StartFlags.max_restarts,
    metavar="N",
    help="Start again, up to N times, after a failure.",
)
@click.option(
    "--fallback",
    is_flag=True,
    help="Restart without InfiniBand after it failed, and with gloo after NCCL failed (scripts that ask "
    "pylaunch.runtime), with a warning that states the price (with --max-restarts).",
)
@click.option(
    "--spares", type=int, default=StartFlags.spares, metavar="N", help="Keep N hosts ready to replace nodes that fail."
)
@click.option("--min-nodes", type=int, metavar="N", help="Restart on as few as N nodes.  [default: all]")
@click.option(
    "--grace",
    type=float,
    metavar="SECONDS",
    help="From SIGTERM to SIGKILL.  [default: 10 when you stop the run, 1 after a failure]",
)
@click.option(
    "--start-timeout",
    type=float,
    default=StartFlags.start_timeout,
    show_default=True,
    help="Seconds nodes may take to be ready.",
)
@click.option(
    "--save-logs",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Bring all logs here at the end.",
)
@features.observer_options("start")
@click.option(
    "--node-timeout",
    type=float,
    default=StartFlags.node_timeout,
    show_default=True,
    help="Seconds of silence until a node is lost.",
)
@click.option(
    "--on-hang",
    type=click.Choice([action.value for action in OnHang]),
    default=StartFlags.on_hang,
    show_default=True,
    help="When ranks do not advance: report it, end the run, or restart it (with --max-restarts).",
)
@click.option(
    "--hang-after",
    default=StartFlags.hang_after,
    show_default=True,
    metavar="SECONDS|off",
    help="Examine the ranks for a hang after this long without output, steps or collectives.",
)
@click.option(
    "--no-rank-thread",
    is_flag=True,
    help="Run nothing of pylaunch in the ranks: stacks come from py-spy or the kernel, and collectives are unknown.",
)
@click.option(
    "--detach",
    is_flag=True,
    help="Return when the ranks run; pylaunch attach follows a run again, pylaunch logs -f a job.",
)
@click.option("--no-check", is_flag=True, help="Do not ask the hosts the checks that belong to a start.")
@click.option("--skip", metavar="IDS", help="Not these checks or subjects, comma-separated: storage,code.tree.")
@click.option("--queue", is_flag=True, help="Wait while other runs hold the devices or port.")
@click.option(
    "--stale",
    type=click.Choice(["leave", "kill"]),
    default=StartFlags.stale,
    show_default=True,
    help="kill first ends what nobody runs any more on the hosts (see pylaunch clean).",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and leave; no host is contacted.")
@click.option("-v", "--verbose", is_flag=True, help="With --dry-run: the environment of the ranks, too.")
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
    asked = dict(given)
    observing = features.observing("start", given)
    observers = observing.new()
    source = features.start_source(given, has_inventory=inventory is not None)
    request = _recorded(asked, observing.options)
    typed = StartFlags(in_job=features.job_changes(given), request=request, **given)
    if (file := features.start_file(typed.words)) is not None:
        if source is not None and not source.is_inventory:
            hint = "on hosts of an inventory over SSH: pylaunch start --scheduler none -i cluster.ini …"
            raise UsageError(
                f"{typed.words[0]}: its nodes are those of an inventory, and here they are Slurm's", hint=hint
            )
        started: int = imported(file.module).started(typed, inventory, limit, features.judge_settings, observing)
        return started
    late = imported("pylaunch.cli.planning")  # During these 300 ms, Slurm answers and its agents load.
    code: int = late.plan_and_run(typed, source, inventory, limit, observers)
    return code


def _recorded(asked: Mapping[str, Any], of_observers: Collection[str]) -> dict[str, object]:
    """Return the options that `rerun` needs beside the plan. Addresses, which may hold a token, are not recorded."""
    request: dict[str, object] = {name: asked[name] for name in BESIDE_THE_JOB}
    if asked["save_logs"] is not None:
        request["save_logs"] = str(asked["save_logs"].absolute())
    left_out: list[str] = []
    for name in of_observers:
        value = asked[name]
        kept = [each for each in value if "://" not in each] if isinstance(value, tuple) else value
        left_out += [name] if isinstance(value, tuple) and len(kept) != len(value) else []
        request[name] = kept
    return {**request, LEFT_OUT: left_out}
