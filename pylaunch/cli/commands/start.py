"""`pylaunch start`: plan, prepare, start together, follow to the end."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import click

from pylaunch.cli import console
from pylaunch.cli.flags import environment, options, program, sync
from pylaunch.cli.flags.shipped_code import modules_not_shipped
from pylaunch.cli.running import Presentation, run_planned
from pylaunch.cli.views.plan import show_plan
from pylaunch.cli.views.starting import StartView
from pylaunch.errors import ExitCode, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.launch.start.queue import Turn
from pylaunch.launch.start.session import TakenError
from pylaunch.launch.sync.tree import Tree
from pylaunch.model.job import Framework, JobSpec, RankOrder
from pylaunch.model.size import shown_size
from pylaunch.workflows.start import StartOptions, plan_start
from pylaunch.workflows.start_checks import at_start_checks

MIN_NODE_TIMEOUT_S = 3
"""Nodes are asked for a word every second."""

LEAST_LOG = 4 << 20
"""Bytes: less would cut what a log begins with and what a failure ends with."""

EXAMPLES = """\b
Examples:
  pylaunch start -i cluster.ini -- train.py --epochs 3
  pylaunch start -i cluster.ini --nodes 2 --nproc-per-node 4 --env NCCL_DEBUG=WARN -- train.py
  pylaunch start -i cluster.ini --sync . -m package.train --lr 3
  pylaunch start -i cluster.ini -- hostname
"""


@click.command(context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@options.inventory
@options.limit
@click.option("--nodes", type=int, metavar="N", help="Take the first N hosts.")
@click.option(
    "--nproc-per-node",
    default="auto",
    metavar="auto|N",
    show_default=True,
    help="Ranks on each node; auto is one per device of the inventory, or one where it lists none.",
)
@options.rank_order
@click.option(
    "--framework",
    type=click.Choice([program.AUTO, *(framework.value for framework in Framework)]),
    default=program.AUTO,
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
@click.option("--max-restarts", type=int, default=0, metavar="N", help="Start again, up to N times, after a failure.")
@click.option("--spares", type=int, default=0, metavar="N", help="Keep N hosts ready to replace nodes that fail.")
@click.option("--min-nodes", type=int, metavar="N", help="Restart on as few as N nodes.  [default: all]")
@click.option(
    "--grace",
    type=float,
    metavar="SECONDS",
    help="From SIGTERM to SIGKILL.  [default: 10 when you stop the run, 1 after a failure]",
)
@click.option(
    "--start-timeout", type=float, default=60.0, show_default=True, help="Seconds nodes may take to be ready."
)
@click.option(
    "--log-limit",
    default="1GiB",
    show_default=True,
    metavar="SIZE",
    help="Bytes that each log file may take on its node; the beginning and the newest stay. 0: no limit.",
)
@click.option(
    "--collect", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Bring all logs here at the end."
)
@click.option(
    "--node-timeout", type=float, default=10.0, show_default=True, help="Seconds of silence until a node is lost."
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
    default="leave",
    show_default=True,
    help="kill first ends what nobody runs any more on the hosts (see pylaunch clean).",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and leave; no host is contacted.")
@options.as_json
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- SCRIPT [ARGS]...")
def command(
    inventory: Path | None, limit: str | None, dry_run: bool, as_json: bool, detach: bool, **asked: object
) -> int:  # fmt: skip
    """Start SCRIPT on all nodes at the same moment, follow it, and say how it ended.

    SCRIPT may be another launcher's line (torchrun, accelerate launch, deepspeed): what maps to pylaunch is taken over.

    Every node is prepared first; if one refuses, nothing starts and all reasons are shown. The first failing rank
    stops all others. Ctrl-C stops the run cleanly, a second one kills it.
    """
    tree = sync.given(asked)
    chosen, asked = program.understood(asked, tree)
    program.report_misplaced(chosen, asked, tree, _long_options())
    env = environment.given(asked, os.environ)
    job = _job(asked, chosen, env, tree)
    if tree is not None and (lacking := modules_not_shipped(tree, job.workdir, job.command[0])):
        console.say("warning: {}; {} ships them".format(*sync.told_not_shipped(lacking)))
    checks = at_start_checks(skip=options.words(asked["skip"]))
    wanted = StartOptions(
        () if asked["no_check"] else checks,
        env.secrets,
        tree,
        _turn(asked),
        ends_leftovers=asked["stale"] == "kill",
    )
    planned = plan_start(load_cluster(inventory, limit=limit), job, StartView().show)
    program.report_ranks_alone(chosen, planned.plan.world_size)
    if dry_run:
        show_plan(planned.plan, planned.commands, as_json=as_json)
        return ExitCode.DONE
    collect_to = asked["collect"] if isinstance(asked["collect"], Path) else None
    try:
        return run_planned(planned, wanted, Presentation(detach, as_json, collect_to))
    except TakenError as error:
        if wanted.turn is None:
            hints = (error.hint, "to wait until they are free: the same command with --queue")
            error.hint = "\n      ".join(filter(None, hints))
        raise


def _long_options() -> frozenset[str]:
    parameters = click.get_current_context().command.params
    return frozenset(word for each in parameters for word in each.opts if word.startswith("--"))


def _turn(asked: Mapping[str, object]) -> Turn | None:
    timeout = asked["queue_timeout"]
    if not asked["queue"]:
        if timeout is not None:
            raise UsageError(
                "--queue-timeout goes with --queue", hint="pylaunch start --queue --queue-timeout 600 -- …"
            )
        return None
    return Turn(time.time(), None if timeout is None else _seconds("--queue-timeout", timeout).total_seconds())


def _job(
    asked: Mapping[str, object], chosen: program.Program, env: environment.Environment, tree: Tree | None
) -> JobSpec:
    workdir = _workdir(asked["workdir"]) if tree is None else sync.workdir(asked["workdir"], tree)
    job = JobSpec(
        command=chosen.words,
        framework=chosen.framework,
        workdir=workdir,
        is_unread=chosen.is_unread,
        ranks_per_node=_ranks_per_node(str(asked["nproc_per_node"])),
        rank_order=RankOrder(str(asked["rank_order"])),
        nodes=asked["nodes"] if isinstance(asked["nodes"], int) else None,
        env=env.plain,
        secrets=tuple(env.secrets),
        sync=None
        if tree is None
        else sync.as_asked(
            tree, *(tuple(map(str, _sequence(asked[name]))) for name in ("sync_exclude", "sync_include"))
        ),
        python=str(asked["python"]) if asked["python"] else None,
        rendezvous_port=asked["port"] if isinstance(asked["port"], int) else None,
        interface=str(asked["interface"]) if asked["interface"] else None,
        log_limit=_log_limit(str(asked["log_limit"])),
        grace=None if asked["grace"] is None else _seconds("--grace", asked["grace"]),
        start_timeout=_seconds("--start-timeout", asked["start_timeout"]),
        node_timeout=_node_timeout(asked["node_timeout"]),
        max_restarts=int(str(asked["max_restarts"])),
        spares=int(str(asked["spares"])),
        min_nodes=asked["min_nodes"] if isinstance(asked["min_nodes"], int) else None,
        ends_with_controller=bool(asked["kill_on_disconnect"]),
    )
    if tree is not None and (job.framework is not Framework.COMMAND or "/" in job.command[0]):
        sync.check_script(tree, workdir, job.script)
    return job


def _workdir(asked: object) -> str:
    workdir = str(asked or Path.cwd())
    if not workdir.startswith("/"):
        raise UsageError(
            f"--workdir {workdir}: expected an absolute path", hint=f"--workdir {Path(workdir).absolute()}"
        )
    return workdir


def _log_limit(text: str) -> int:
    size = options.size("--log-limit", text)
    if 0 < size < LEAST_LOG:
        raise UsageError(f"--log-limit {text}: expected {shown_size(LEAST_LOG)} at least, or 0")
    return size


def _sequence(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()


def _ranks_per_node(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--nproc-per-node {text}: expected auto or a whole number from 1 on")
    return int(text)


def _seconds(option: str, value: object) -> timedelta:
    seconds = float(str(value))
    if not 0 <= seconds <= 86400:
        raise UsageError(f"{option} {seconds:g}: expected 0 … 86400 seconds")
    return timedelta(seconds=seconds)


def _node_timeout(value: object) -> timedelta:
    if not MIN_NODE_TIMEOUT_S <= float(str(value)) <= 3600:
        raise UsageError(f"--node-timeout {value}: expected {MIN_NODE_TIMEOUT_S} … 3600 seconds")
    return timedelta(seconds=float(str(value)))
