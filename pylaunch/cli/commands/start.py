"""`pylaunch start`: plan, prepare, start together, follow to the end."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pylaunch.cli import console
from pylaunch.cli.flags import environment, options, program, scheduler, sync
from pylaunch.cli.flags.shipped_code import modules_not_shipped
from pylaunch.cli.flags.start import AUTO, NAMED_BY_RUN, StartFlags
from pylaunch.cli.nodes import nodes_of_start
from pylaunch.cli.running import Presentation, run_planned
from pylaunch.cli.views.plan import show_plan
from pylaunch.cli.views.starting import StartView
from pylaunch.errors import ExitCode
from pylaunch.launch.start.session import TakenError
from pylaunch.model.job import Framework, OnHang
from pylaunch.workflows.start import StartOptions, plan_start
from pylaunch.workflows.start_checks import at_start_checks

EXAMPLES = """\b
Examples:
  pylaunch start -i cluster.ini -- train.py --epochs 3
  pylaunch start -i cluster.ini --nodes 2 --nproc-per-node 4 --env NCCL_DEBUG=WARN -- train.py
  pylaunch start -i cluster.ini --sync . -m package.train --lr 3
  pylaunch start -i cluster.ini -- hostname
  pylaunch start --scheduler slurm --nodes 4 --gpus-per-node 8 --time 8:00:00 -- train.py
"""


@click.command(context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@options.inventory
@options.limit
@scheduler.options
@click.option("--nodes", type=int, metavar="N", help="Take the first N hosts; with Slurm, request N nodes.")
@click.option(
    "--nproc-per-node",
    default=StartFlags.nproc_per_node,
    metavar="auto|N",
    show_default=True,
    help="Ranks on each node; auto is one per device of the inventory, or one where it lists none.",
)
@options.rank_order
@click.option(
    "--framework",
    type=click.Choice([AUTO, *(framework.value for framework in Framework)]),
    default=StartFlags.framework,
    show_default=True,
    help="How ranks are started; auto reads what SCRIPT imports, and is command for any other program.",
)
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@environment.options
@sync.options
@click.option("--workdir", metavar="DIR", help="Directory on every node to start in.  [default: this directory]")
@click.option("--python", metavar="PATH", help="Interpreter of the ranks.  [default: the provisioned environment]")
@click.option("--port", type=int, help="Rendezvous port on the first node.  [default: one that is free there]")
@click.option(
    "--interface",
    metavar="NAME",
    help="Network interface of the ranks on every node.  [default: the inventory's, else by route to the other nodes]",
)
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
    "--preload",
    default=StartFlags.preload,
    metavar="auto|none|MODULE,…",
    show_default=True,
    help="Import once on each node before the release, and fork the ranks; auto: the first imports of SCRIPT.",
)
@click.option(
    "--log-limit",
    default=StartFlags.log_limit,
    show_default=True,
    metavar="SIZE",
    help="Bytes that each log file may take on its node; the beginning and the newest stay. 0: no limit.",
)
@click.option(
    "--collect", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Bring all logs here at the end."
)
@click.option(
    "--report",
    is_flag=False,
    flag_value=NAMED_BY_RUN,
    metavar="[FILE]",
    help=f"If the run fails, write it as one HTML file.  [default: {NAMED_BY_RUN} here]",
)
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
@click.option("--detach", is_flag=True, help="Return when the ranks run; pylaunch attach follows them again.")
@click.option(
    "--kill-on-disconnect", is_flag=True, help="Stop the run when its controller is silent for --node-timeout."
)
@click.option("--no-check", is_flag=True, help="Do not ask the hosts the checks that belong to a start.")
@click.option("--skip", metavar="IDS", help="Not these checks or subjects, comma-separated: storage,code.tree.")
@click.option("--queue", is_flag=True, help="Wait, first come first served, while other runs hold the devices or port.")
@click.option("--queue-timeout", type=float, metavar="SECONDS", help="With --queue: give up after this long.")
@click.option(
    "--stale",
    type=click.Choice(["leave", "kill"]),
    default=StartFlags.stale,
    show_default=True,
    help="kill first ends what nobody runs any more on the hosts (see pylaunch clean).",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and leave; no host is contacted.")
@options.as_json
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- SCRIPT [ARGS]...")
def command(inventory: Path | None, limit: str | None, as_json: bool, **given: Any) -> int:
    """Start SCRIPT on all nodes at the same moment, follow it, and report how it ended.

    SCRIPT may be another launcher's line (torchrun, accelerate launch, deepspeed): what maps to pylaunch is taken over.

    Every node is prepared first; if one refuses, nothing starts and all reasons are shown. The first failing rank
    stops all others. Ctrl-C stops the run cleanly, a second one kills it.
    """
    typed = StartFlags(**given)
    tree = sync.given(typed)
    chosen, flags = program.understood(typed, tree)
    program.report_misplaced(chosen, flags.workdir, tree, _long_options())
    env = environment.given(flags, os.environ)
    chosen = program.with_variables(chosen, flags.framework, env.plain)
    job = flags.job(chosen.words, chosen.framework, env, tree, is_unread=chosen.is_unread)
    if tree is not None and (lacking := modules_not_shipped(tree, job.workdir, job.command[0])):
        console.say("warning: {}; {} ships them".format(*sync.not_shipped_warning(lacking)))
    checks = at_start_checks(skip=options.words(flags.skip))
    wanted = StartOptions(
        checks=() if flags.no_check else checks,
        secrets=env.secrets,
        tree=tree,
        turn=flags.turn(),
        ends_leftovers=flags.stale == "kill",
    )
    with nodes_of_start(flags, inventory, limit) as nodes:
        planned = plan_start(nodes.cluster, job, StartView().show)
        planned = nodes.recorded_in(nodes.continued(planned, console.say))
        wanted = replace(wanted, requeues=nodes.requeues(job))
        program.report_ranks_alone(chosen, planned.plan.world_size)
        if flags.dry_run:
            show_plan(planned.plan, planned.commands, as_json=as_json)
            return ExitCode.DONE
        shown = Presentation(flags.detach, as_json, flags.collect, flags.report_file(), nodes.end)
    try:
        return run_planned(planned, wanted, shown)
    except TakenError as error:
        if wanted.turn is None:
            hints = (error.hint, "to wait until they are free: the same command with --queue")
            error.hint = "\n      ".join(filter(None, hints))
        raise


def _long_options() -> frozenset[str]:
    parameters = click.get_current_context().command.params
    return frozenset(word for each in parameters for word in each.opts if word.startswith("--"))
