"""`pylaunch top`: all live runs on one screen."""

import importlib.util
import sys
from functools import partial
from pathlib import Path

import click

from pylaunch.errors import ExitCode, UsageError
from pylaunch.features.top.live_runs import FollowedRuns
from pylaunch.features.top.verb_output import run_verb
from pylaunch.inventory import load_cluster
from pylaunch.runs.connect.interruptible import signals
from pylaunch.terminal import console, options
from pylaunch.terminal.invocation import current
from pylaunch.terminal.late_import import imported
from pylaunch.transport.interrupts import LAST_S
from pylaunch.transport.silence import AWAITED


@click.command()
@options.nodes_know
def command(*, inventory: Path | None) -> int:
    """Show all live runs that are recorded here, and the nodes and ranks of one of them, until q.

    With -i only runs of this inventory, also those that other machines have started. Keys: l logs, s stacks, r report,
    x stop (asks first), Enter details, / filter by node, Tab other table, q quit.
    """
    if importlib.util.find_spec("textual") is None:
        install = f"{sys.executable} -m pip install 'textual>=8,<9'"
        raise UsageError("top needs the package textual, which is not installed", hint=install)
    if not (console.is_terminal(sys.stdin) and console.is_drawable()):
        raise UsageError("top needs a terminal", hint="pylaunch ps; pylaunch status RUN --watch --json")
    AWAITED.report_to(None)  # The screen is the application's.
    root = click.get_current_context().find_root().command
    with FollowedRuns(None if inventory is None else load_cluster(inventory)) as live:
        app = imported("pylaunch.features.top.app").TopApp(live, partial(run_verb, root, current()))
        with signals(app.interrupted, LAST_S):
            app.run()
    return ExitCode.DONE
