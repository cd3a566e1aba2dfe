"""Plan a start from its flags, then run it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pylaunch.base.dataclass import replace
from pylaunch.cli.job_here import StartSource
from pylaunch.cli.lent_terminal import lent_terminal
from pylaunch.cli.nodes import nodes_of_start
from pylaunch.cli.running import Presentation, run_planned
from pylaunch.cli.views.plan import show_plan
from pylaunch.errors import ExitCode
from pylaunch.features import judge_settings
from pylaunch.launch.start.session import TakenError
from pylaunch.terminal import console, options
from pylaunch.terminal.doors import RunObserver
from pylaunch.terminal.flags import environment, program, sync
from pylaunch.terminal.flags.shipped_code import modules_not_shipped
from pylaunch.terminal.flags.start import StartFlags
from pylaunch.terminal.invocation import current
from pylaunch.terminal.views.starting import StartView
from pylaunch.workflows.start import StartOptions, plan_start
from pylaunch.workflows.start_checks import at_start_checks


def plan_and_run(
    typed: StartFlags,
    source: StartSource,
    inventory: Path | None,
    limit: str | None,
    observers: tuple[RunObserver, ...],
) -> int:
    """Start the job of the flags on the nodes of `source`, and return the exit code."""
    as_json = current().as_json
    tree = sync.given(typed)
    chosen, flags = program.understood(typed, tree)
    program.report_misplaced(chosen, flags.workdir, tree, _long_options())
    env = environment.given(flags, os.environ)
    if flags.debug_rank is not None:
        # What the rank writes is for this terminal.
        env = replace(env, plain={"TERM": os.environ.get("TERM", "dumb"), **env.plain})
    chosen = program.with_variables(chosen, flags.framework, env.plain)
    job = flags.job(chosen.words, chosen.framework, env, tree, is_unread=chosen.is_unread)
    terminal = None if flags.dry_run else lent_terminal(job.debug_rank, detach=flags.detach, as_json=as_json)
    if tree is not None and (lacking := modules_not_shipped(tree, job.workdir, job.command[0])):
        console.say("warning: {}; {} ships them".format(*sync.not_shipped_warning(lacking)))
    checks = at_start_checks(skip=options.words(flags.skip))
    wanted = StartOptions(
        checks=() if flags.no_check else checks,
        secrets=env.secrets,
        tree=tree,
        turn=flags.turn(),
        ends_leftovers=flags.stale == "kill",
        terminal=terminal,
    )
    with nodes_of_start(flags, source, inventory, limit, job) as nodes:
        planned = plan_start(nodes.cluster, job, judge_settings, StartView().show)
        planned = nodes.recorded_in(nodes.continued(planned, console.say))
        wanted = replace(wanted, requeues=nodes.requeues(job))
        program.report_ranks_alone(chosen, planned.plan.world_size)
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
