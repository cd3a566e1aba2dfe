"""`status --watch` of all live runs: a table on a terminal, lines in a pipe, or JSON. Ctrl-C ends only the watching."""

import contextlib
import sys
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue

from pylaunch.cli.views.status import JsonView, PlainView, Spectator, View
from pylaunch.model.hostset import fold
from pylaunch.model.plan import RunPlan
from pylaunch.runs.status import previous_attempt
from pylaunch.runs.watch import LiveRuns
from pylaunch.terminal import console, document
from pylaunch.terminal.columns import aligned
from pylaunch.terminal.listing import duration
from pylaunch.terminal.live_area import LiveArea
from pylaunch.terminal.views.board import Board
from pylaunch.terminal.views.terminal import REDRAW_S

REFRESH_S = 1.0
"""Interval at which records are read."""

COLUMNS = ("RUN", "STATUS", "FOR", "RANKS", "HOSTS", "PROGRESS")


class RowView:
    """Keeps the row of a run."""

    def __init__(self) -> None:
        self.cells: tuple[str, ...] = ()

    def show(self, board: Board, now: float) -> None:
        """Keep the cells of `board`."""
        lost = f", no contact with {fold(board.lost)}" if board.lost else ""
        self.cells = (
            board.plan.run,
            board.phase + lost,
            "" if board.started_at is None else duration(now - board.started_at),
            f"{len(board.running)} of {board.plan.world_size}",
            fold(node.host.name for node in board.plan.nodes),
            board.progress(now),
        )


class _Spectator(Spectator):
    """A `runs.live_runs.RunOnlooker`."""

    def __init__(self, plan: RunPlan, view: View) -> None:
        super().__init__(Board(plan, previous_attempt(plan)), view)
        self.view = view

    def lose_all(self) -> None:
        """Show that no node can be reached."""
        self._board.lost.update(self._board.plan.cluster.names)
        self.look()


def watch_all(*, as_json: bool) -> None:
    """Show the live runs that are recorded here, also those that begin meanwhile, until none is left or Ctrl-C."""
    documents: SimpleQueue[Mapping[str, object]] = SimpleQueue()
    on_screen = not as_json and console.is_terminal(sys.stdout) and console.is_drawable()
    new: Callable[[], View] = RowView if on_screen else lambda: PlainView(console.data)
    if as_json:
        new = lambda: JsonView(documents.put)  # noqa: E731
    live = LiveRuns[_Spectator](lambda plan, _: _Spectator(plan, new()))

    def rows() -> list[str]:
        cells = [each.view.cells for each in live.onlookers if isinstance(each.view, RowView) and each.view.cells]
        return aligned(COLUMNS, sorted(cells), None)

    with contextlib.ExitStack() as stack:
        stack.callback(live.close)
        if on_screen:
            stack.enter_context(LiveArea(rows, REDRAW_S))
        try:
            while _refreshed(live):
                while not documents.empty():
                    document.line(documents.get())
                threading.Event().wait(REFRESH_S)
        except KeyboardInterrupt:
            console.say("the runs continue")


def _refreshed(live: LiveRuns[_Spectator]) -> bool:
    """Read the records and print which runs have ended; return False when none is live."""
    for record in live.refresh():
        if record.outcome is not None:
            console.say(f"run {record.plan.run} {record.outcome.status.value}: {record.outcome.reason}")
    return live.is_watching
