"""Plan a start from its flags, then run it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pylaunch.base.dataclass import replace
from pylaunch.cli.asked_hosts import InventorySource
from pylaunch.cli.lent_terminal import lent_terminal
from pylaunch.cli.running import Presentation, run_planned
from pylaunch.cli.views.plan import show_plan
from pylaunch.errors import ExitCode
from pylaunch.features import judge_settings
from pylaunch.runs.prepare.session import TakenError
from pylaunch.runs.start import plan_start
from pylaunch.terminal.doors import NodesWanted, RunObserver, StartSource
from pylaunch.terminal.flags import program
from pylaunch.terminal.flags.requested import requested
from pylaunch.terminal.flags.start import StartFlags
from pylaunch.terminal.invocation import current
from pylaunch.terminal.views.starting import StartView


def plan_and_run(
    typed: StartFlags,
    source: StartSource | None,
    inventory: Path | None,
    limit: str | None,
    observers: tuple[RunObserver, ...],
) -> int:
    """Start the job of the flags on the nodes of `source`, and return the exit code."""
    as_json = current().as_json
    asked = requested(typed, os.environ, _long_options())
    source = source or InventorySource()
    flags, job = asked.flags, source.in_job(asked.job)
    terminal = None if flags.dry_run else lent_terminal(job.debug_rank, detach=flags.detach, as_json=as_json)
    wanted = replace(asked.options, terminal=terminal)
    with source.nodes(NodesWanted(inventory, limit, flags.nodes, flags.spares, flags.dry_run), job) as nodes:
        cluster, job = typed.choice(nodes.cluster, job)
        planned = plan_start(cluster, job, judge_settings, StartView().show)
        planned = nodes.recorded(planned)
        wanted = replace(wanted, requeues=nodes.requeues)
        program.report_ranks_alone(asked.program, planned.plan.world_size)
        if flags.dry_run:
            show_plan(planned.plan, planned.commands, as_json=as_json)
            return ExitCode.DONE
        shown = Presentation(flags.detach, as_json, flags.collect, observers, nodes.end)
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
