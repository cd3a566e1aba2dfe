"""`pylaunch attach`: follow a live run again."""

from __future__ import annotations

from pathlib import Path

import click

from pylaunch.cli.flags import options
from pylaunch.cli.flags.resolve_run import find
from pylaunch.cli.running import exit_code
from pylaunch.cli.views.following import AttachView
from pylaunch.cli.views.terminal import USAGE_S, has_board
from pylaunch.launch.connect.interruptible import signals
from pylaunch.workflows.attach import attach


@click.command()
@options.run
@options.nodes_know
def command(run: str | None, *, inventory: Path | None) -> int:
    """Follow RUN (the only live one without) from the beginning of its logs to its end, as start does.

    Ctrl-C stops the run cleanly, a second one kills it. To look without that, use pylaunch logs -f.
    """
    with AttachView() as view:
        outcome = attach(find(run, inventory), view.show, signals, usage_every_s=USAGE_S if has_board() else 0.0)
    return exit_code(outcome)
