"""`pylaunch attach`: follow a live run again."""

import contextlib
from pathlib import Path
from typing import Any

import click

from pylaunch import features
from pylaunch.errors import ExitCode
from pylaunch.model.outcome import Outcome
from pylaunch.model.text.argv import pylaunch
from pylaunch.runs.attach import Attached, AttachEvent, AttachOptions, LogsCaughtUp, RunOver, attach
from pylaunch.runs.connect.interruptible import signals
from pylaunch.terminal import console, options
from pylaunch.terminal.doors import RunEnding
from pylaunch.terminal.flags.resolve_run import find
from pylaunch.terminal.option import added
from pylaunch.terminal.views.live import USAGE_S, Live, has_board, show_outcome, watching


@click.command()
@options.run
@options.nodes_know
@added(features.options("attach"))
def command(run: str | None, *, inventory: Path | None, **given: Any) -> int:
    """Follow RUN (the only live one without) from the beginning of its logs to its end, as start does.

    Ctrl-C leaves the run alone; pylaunch stop stops it.
    """
    observers = features.observers(given)()
    record = find(run, inventory)
    outcome: Outcome | None = None
    with AttachView() as view:

        def show(event: AttachEvent) -> None:
            view.show(event)
            for observer in observers:
                observer.on_event(event)

        wanted = AttachOptions(USAGE_S if has_board() else 0.0, stops_on_interrupt=False)
        with contextlib.suppress(KeyboardInterrupt):
            outcome = attach(record, show, signals, wanted)
    if outcome is None:
        run = record.plan.run
        console.say(f"interrupted; run {run} continues; to stop it: {pylaunch('stop', run)}")
        return ExitCode.INTERRUPTED
    for observer in observers:
        observer.at_end(RunEnding(record.plan.run, outcome))
    if view.leads:
        features.end_nodes(record.plan, outcome)
    return outcome.status.exit_code


class AttachView:
    """Shows a run that is followed, and its outcome."""

    def __init__(self) -> None:
        self.leads = False
        """This process is the controller of the run."""

        self._live: Live | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> "AttachView":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def show(self, event: AttachEvent) -> None:
        """Show `event`."""
        match event:
            case Attached(record, leads):
                self.leads = leads
                run = record.plan.run
                console.say(f"following run {run}; Ctrl-C leaves it alone, {pylaunch('stop', run)} stops it")
                self._live = self._open.enter_context(watching(record.plan, leads=leads))
                self._live.hold()
            case LogsCaughtUp():
                if self._live is not None:
                    self._live.catch_up()
            case RunOver(record, outcome, ran_s):
                self._open.close()
                show_outcome(record.plan, outcome if self._live is None else self._live.unshown(outcome), ran_s)
            case _ if self._live is not None:
                self._live.show(event)
            case _:
                pass
