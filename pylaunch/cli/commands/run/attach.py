"""`pylaunch attach`: follow a live run again."""

import contextlib
import sys
from pathlib import Path
from typing import Any

import click

from pylaunch import features
from pylaunch.errors import ExitCode
from pylaunch.model.outcome import Outcome
from pylaunch.model.text.argv import pylaunch
from pylaunch.runs.attach import AttachOptions, attach
from pylaunch.runs.events import StartEvent
from pylaunch.terminal import console, document, options
from pylaunch.terminal.doors import RunEnding
from pylaunch.terminal.flags.resolve_run import find
from pylaunch.terminal.options import added
from pylaunch.terminal.views import run_data
from pylaunch.terminal.views.live import PROGRESS_S, RunView, has_board
from pylaunch.transport.interrupts import signals


@click.command()
@options.run
@options.nodes_know
@added(features.options("attach"))
@options.as_json
def command(run: str | None, *, inventory: Path | None, as_json: bool, **given: Any) -> int:
    """Follow RUN (the only live one without) from the beginning of its logs to its end, as start does.

    Ctrl-C leaves the run alone; pylaunch stop stops it. With --json, stdout has one object a line: each event of the
    run as it happens, at the end the run with its outcome. Output of ranks goes to stderr.
    """
    document.begin_stream()
    observers = features.observers(given)()
    if as_json:
        observers = (*observers, run_data.EventStream(sys.stdout))
    record = find(run, inventory)
    outcome: Outcome | None = None
    with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout), RunView() as view:

        def show(event: StartEvent) -> None:
            view.show(event)
            for observer in observers:
                observer.on_event(event)

        wanted = AttachOptions(PROGRESS_S if has_board() else 0.0)
        with contextlib.suppress(KeyboardInterrupt):
            outcome = attach(record, show, signals, wanted)
    if outcome is None:
        run = record.plan.run
        console.say(f"interrupted; run {run} continues; to stop it: {pylaunch('stop', run)}")
        return ExitCode.INTERRUPTED
    for observer in observers:
        observer.at_end(RunEnding(view.run, outcome))
    if as_json:
        document.show(run_data.latest(record.plan.run))
    if view.leads:
        features.end_nodes(record.plan, outcome)
    return outcome.status.exit_code
