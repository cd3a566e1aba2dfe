"""`status --watch`: a live run on a terminal or in a pipe. Ctrl-C ends only the watching."""

import contextlib
from collections.abc import Callable, Iterator

from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.runs.attach import AttachOptions, attach
from pylaunch.runs.events import Attached, AttemptEnded, LinesWritten, ProgressReported, StartEvent, clock_now
from pylaunch.runs.status import TAIL, previous_attempt
from pylaunch.terminal import console, document
from pylaunch.terminal.views.board import Board, RankStep
from pylaunch.terminal.views.live import REDRAW_S, has_board
from pylaunch.transport.interrupts import signals

PROGRESS_S = 2.0
QUIET_S = 60.0
"""In plain lines, the interval while only steps change."""

View = Callable[[Board, float], None]
"""Shows a model of a run; called twice a second with seconds since the epoch."""


def watch_attempts(record: RunRecord) -> str | None:
    """Show a run and the attempts after it until the last one is over; return its id, or None after Ctrl-C."""
    with _view() as view:
        spectator = Spectator(view)
        options = AttachOptions(PROGRESS_S, tail=TAIL, may_lead=False, look=spectator.look)
        try:
            attach(record, spectator.show, signals, options)
        except KeyboardInterrupt:
            return None
    return spectator.run


class Spectator:
    """Shows the state of a run that it follows and does not lead."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._board: Board | None = None
        self.run = ""

    def show(self, event: StartEvent) -> None:
        """Update the model, or print a notice."""
        match event:
            case Attached(RunRecord(plan=plan)):
                self._board = Board(plan, previous_attempt(plan))
            case AttemptEnded(plan):
                self.run = plan.run
            case Event(kind=EventKind.NOTICE):
                console.say(event.text)
            case Event() | LinesWritten() | ProgressReported() if self._board is not None:
                self._board.add(event)

    def look(self) -> None:
        """Show the model."""
        if self._board is not None:
            self._view(self._board, clock_now())


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
