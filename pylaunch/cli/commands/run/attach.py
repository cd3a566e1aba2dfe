"""`pylaunch attach`: follow a live run again."""

import contextlib
from pathlib import Path
from typing import Any

import click

from pylaunch import features
from pylaunch.runs.attach import Attached, AttachEvent, LogsCaughtUp, RunOver, attach
from pylaunch.runs.connect.interruptible import signals
from pylaunch.terminal import options
from pylaunch.terminal.doors import RunEnding
from pylaunch.terminal.flags.resolve_run import find
from pylaunch.terminal.views.live import Live, show_outcome
from pylaunch.terminal.views.terminal import USAGE_S, has_board, watching


@click.command()
@options.run
@options.nodes_know
@features.observer_options("attach")
def command(run: str | None, *, inventory: Path | None, **given: Any) -> int:
    """Follow RUN (the only live one without) from the beginning of its logs to its end, as start does.

    Ctrl-C stops the run cleanly, a second one kills it. To look without that, use pylaunch logs -f.
    """
    observers = features.observing("attach", given).new()
    record = find(run, inventory)
    with AttachView() as view:

        def show(event: AttachEvent) -> None:
            view.show(event)
            for observer in observers:
                observer.on_event(event)

        outcome = attach(record, show, signals, usage_every_s=USAGE_S if has_board() else 0.0)
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
                self._live = self._open.enter_context(watching(record.plan, leads=leads))
                self._live.hold()
            case LogsCaughtUp():
                if self._live is not None:
                    self._live.catch_up()
            case RunOver(record, outcome, ran_s):
                self._open.close()
                show_outcome(record.plan, outcome, ran_s)
            case _ if self._live is not None:
                self._live.show(event)
            case _:
                pass
