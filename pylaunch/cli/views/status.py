"""`status --watch`: a live run on a terminal or in a pipe. Ctrl-C ends only the watching."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.runs.events import RunEvent
from pylaunch.runs.status import previous_attempt
from pylaunch.runs.watch import glimpse, watch_run
from pylaunch.terminal import console, document
from pylaunch.terminal.views.board import Board, Pace, RankStep
from pylaunch.terminal.views.live import REDRAW_S, has_board
from pylaunch.transport import steady_clock
from pylaunch.transport.interrupts import Interrupter, signals

if TYPE_CHECKING:
    pass

PROGRESS_S = 2.0
GLIMPSE_EVERY_S = 0.5
QUIET_S = 60.0
"""In plain lines, the interval while only steps change."""

View = Callable[[Board, float], None]
"""Shows a model of a run; called twice a second with seconds since the epoch."""


def watch_attempts(record: RunRecord) -> RunRecord | None:
    """Show a run and the attempts after it until the last one is over; return its record, or None after Ctrl-C."""
    with _view() as view:
        return watch_run(record, lambda plan: Spectator(plan, view), signals)


def board_now(record: RunRecord, hosts: Iterable[str]) -> Board:
    """Return the model of a live run as it is now, with progress and last lines of those `hosts` that answer."""
    interrupter = Interrupter()
    awaited = frozenset(hosts)

    def look(board: Board, _: float) -> None:
        """Interrupt when every host has reported its progress, which is after the last lines of its ranks."""
        if awaited <= board.reported:
            interrupter.interrupt("enough")

    # `status` has printed what the nodes answered.
    spectator = Spectator(record.plan, look, say=lambda _: None)
    spectator.progress_every_s = GLIMPSE_EVERY_S
    glimpse(record, awaited, spectator, interrupter)
    spectator.board.pace = Pace()  # A rate of marks that were made before has the precision of their dates: too little.
    return spectator.board


class Spectator:
    """An onlooker of a run that keeps its model. The record is left alone."""

    def __init__(self, plan: RunPlan, view: View, say: Callable[[str], None] = console.say) -> None:
        self.board = Board(plan, previous_attempt(plan))
        self.progress_every_s = PROGRESS_S
        self._view = view
        self._say = say

    def show(self, event: RunEvent) -> None:
        """Update the model, or print a notice."""
        self.board.add(event)
        if isinstance(event, Event) and event.kind is EventKind.NOTICE:
            self._say(event.text)

    def look(self) -> None:
        """Show the model."""
        self._view(self.board, steady_clock.now())


@contextlib.contextmanager
def _view() -> Iterator[View]:
    if not has_board():
        yield plain_view()
        return
    shown: list[str] = []

    def keep(board: Board, now: float) -> None:
        shown[:] = [*board.lines(now), *board.output()]

    with console.drawn(lambda: shown, REDRAW_S):
        yield keep


def plain_view(say: Callable[[str], None] = console.data) -> View:
    """Return a view that prints a line when the state of a run changed and was the same twice, and one each minute."""
    seen: object = None
    printed: object = None
    printed_at = 0.0

    def show(board: Board, now: float) -> None:
        nonlocal seen, printed, printed_at
        is_steady, seen = board.state == seen, board.state
        if is_steady and (seen != printed or now - printed_at >= QUIET_S):
            printed, printed_at = seen, now
            say("; ".join(filter(None, (board.head(now), board.progress(now)))))

    return show


def progress(board: Board, now: float) -> dict[str, object]:
    """Return the progress and the last lines of the ranks as data."""
    slowest, furthest = board.extremes() or (None, None)
    return {
        "steps_per_second": _rounded(None if slowest is None else board.pace.rate(slowest.rank, now), 6),
        "seconds_left": _rounded(None if slowest is None else board.pace.left_s(slowest, now), 1),
        "furthest": _mark(furthest),
        "slowest": _mark(slowest),
        "last_lines": {str(rank): line for rank, line in sorted(board.last_lines.items())},
    }


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)


def _mark(mark: RankStep | None) -> dict[str, object] | None:
    if mark is None:
        return None
    return {
        "rank": mark.rank,
        "step": _whole(mark.step),
        "total": _whole(mark.total) or None,
        "time": document.moment(mark.time),
    }


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number
