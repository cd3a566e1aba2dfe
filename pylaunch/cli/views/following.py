"""Events of a run that exists: on the terminal, in order, from the beginning of its logs."""

from __future__ import annotations

import contextlib

from pylaunch.terminal.views.live import Live, show_outcome
from pylaunch.terminal.views.terminal import watching
from pylaunch.workflows.attach import Attached, AttachEvent, LogsCaughtUp, RunOver


class AttachView:
    """Shows a run that is followed, and its outcome."""

    def __init__(self) -> None:
        self.leads = False
        """This process is the controller of the run."""

        self._live: Live | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> AttachView:
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
