"""`pylaunch attach`: follow a live run again."""

from __future__ import annotations

from pathlib import Path

import click

from pylaunch.cli import console
from pylaunch.cli.flags import options
from pylaunch.cli.flags.resolve_run import find
from pylaunch.cli.running import exit_code
from pylaunch.cli.views.live import show_outcome
from pylaunch.cli.views.terminal import watching
from pylaunch.launch.existing.attach import follow
from pylaunch.store import runs


@click.command()
@options.run
@options.nodes_know
def command(run: str | None, *, inventory: Path | None) -> int:
    """Follow RUN (the only live one without) from the beginning of its logs to its end, as start does.

    Ctrl-C stops the run cleanly, a second one kills it. To look without that, use pylaunch logs -f.
    """
    record = find(run, inventory)
    if record.outcome is not None:
        show_outcome(record.plan, record.outcome, record.ran_s(record.outcome))
        return exit_code(record.outcome)
    recorder = runs.Recorder(record.plan.run, console.say)
    is_in_charge = recorder.take_charge()
    with watching(record.plan, recorder if is_in_charge else None) as watcher:
        watcher.hold()
        outcome = follow(record, watcher, watcher.catch_up)
    if is_in_charge:
        recorder.finish(outcome)
    show_outcome(record.plan, outcome, runs.read(record.plan.run).ran_s(outcome))
    return exit_code(outcome)
