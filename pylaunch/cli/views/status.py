"""`status --watch`: a live run on a terminal, in a pipe or as JSON. Ctrl-C ends only the watching."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from pylaunch.model.run import Event, RunRecord
from pylaunch.protocol.usage_report import Usage
from pylaunch.runs import steady_clock
from pylaunch.runs.connect.interruptible import Interrupter, signals
from pylaunch.runs.events import LinesWritten, Notice, RunEvent, UsageReported
from pylaunch.runs.status import previous_attempt
from pylaunch.runs.watch import glimpse, watch_run
from pylaunch.terminal import console, document
from pylaunch.terminal.live_area import LiveArea
from pylaunch.terminal.views.board import Board
from pylaunch.terminal.views.pace import Pace, RankStep
from pylaunch.terminal.views.run_data import previous_data
from pylaunch.terminal.views.terminal import REDRAW_S

USAGE_S = 2.0
GLIMPSE_USAGE_S = 0.5
QUIET_S = 60.0
"""In plain lines, the interval while only steps and load change."""


def watch_attempts(record: RunRecord, *, as_json: bool) -> RunRecord | None:
    """Show a run and the attempts after it until the last one is over; return its record, or None after Ctrl-C."""
    with _view(as_json=as_json) as view:
        return watch_run(record, lambda plan: Spectator(Board(plan, previous_attempt(plan)), view), signals)


def board_now(record: RunRecord, hosts: Iterable[str]) -> Board:
    """Return the board of a live run as it is now, with the load and the last lines of those `hosts` that answer."""
    board = Board(record.plan, previous_attempt(record.plan))
    interrupter = Interrupter()
    glimpse(record, _Glimpse(board, frozenset(hosts), interrupter), interrupter)
    board.pace = Pace()  # A rate of lines that were written before has the precision of their dates: too little.
    return board


class View(Protocol):
    """Shows a board at intervals."""

    def show(self, board: Board, now: float) -> None:
        """Show `board`; called twice a second with seconds since the epoch."""


class Spectator:
    """A `runs.watch.Onlooker` that keeps a board."""

    usage_every_s = USAGE_S

    def __init__(self, board: Board, view: View, say: Callable[[str], None] = console.say) -> None:
        self._board = board
        self._view = view
        self._say = say

    def show(self, event: RunEvent) -> None:
        """Update the board, or print a notice. The record is left alone, and the board shows no stacks."""
        match event:
            case Event():
                self._board.on(event)
            case LinesWritten():
                self._board.wrote(event.stream, event.text, event.time)
            case UsageReported():
                self._board.read(event.host, event.usage)
            case Notice():
                self._say(event.text)

    def look(self) -> None:
        """Show the board."""
        self._view.show(self._board, steady_clock.now())


class _Glimpse(Spectator):
    """Keeps a board until every host has reported its load, which is after the last lines of its ranks."""

    usage_every_s = GLIMPSE_USAGE_S

    def __init__(self, board: Board, hosts: frozenset[str], interrupter: Interrupter) -> None:
        # `status` has printed what the nodes answered.
        super().__init__(board, PlainView(lambda _: None), say=lambda _: None)
        self._hosts = hosts
        self._interrupter = interrupter

    def look(self) -> None:
        """Interrupt when the board is complete."""
        if self._hosts <= self._board.usage.keys():
            self._interrupter.interrupt("enough")


@contextlib.contextmanager
def _view(*, as_json: bool) -> Iterator[View]:
    if as_json:
        yield JsonView(document.line)
    elif console.is_terminal(sys.stdout) and console.is_drawable():
        view = ScreenView()
        with LiveArea(view.lines, REDRAW_S):
            yield view
    else:
        yield PlainView(console.data)


class ScreenView:
    """The board, drawn in place."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def show(self, board: Board, now: float) -> None:
        """Keep the lines of `board` for the next drawing."""
        self._lines = [*board.lines(now), *board.output()]

    def lines(self) -> list[str]:
        """Return the lines that were kept last."""
        return self._lines


class PlainView:
    """Prints a line when the state of the run changed and was the same twice, and one each minute."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._seen: object = None
        self._printed: object = None
        self._printed_at = 0.0

    def show(self, board: Board, now: float) -> None:
        """Print the board if it is due."""
        state = board.state
        is_steady, self._seen = state == self._seen, state
        if is_steady and (state != self._printed or now - self._printed_at >= QUIET_S):
            self._printed, self._printed_at = state, now
            self._say("; ".join(part for part in (board.head(now), board.progress(now)) if part))


class JsonView:
    """Prints one object a line, as often as nodes report their load."""

    def __init__(self, say: Callable[[Mapping[str, object]], None]) -> None:
        self._say = say
        self._next = 0.0

    def show(self, board: Board, now: float) -> None:
        """Print the board if it is due."""
        if now >= self._next:
            self._next = now + USAGE_S
            self._say(snapshot(board, now))


def snapshot(board: Board, now: float) -> dict[str, object]:
    """Return the board at `now` as data."""
    return {
        "time": document.moment(now),
        "run": board.plan.run,
        "status": board.phase,
        "restart": board.plan.restart,
        "max_restarts": board.plan.job.max_restarts,
        "seconds": None if board.started_at is None else round(now - board.started_at, 1),
        "ranks": board.plan.world_size,
        "running": len(board.running),
        "ended": len(board.ended),
        "hosts": [node.host.name for node in board.plan.nodes],
        "spares": [host.name for host in board.plan.spares],
        "previous": previous_data(board.previous),
        **progress(board, now),
        "nodes": [_node(node.host.name, board) for node in board.plan.nodes],
    }


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
        "unit": mark.unit,
        "exact": mark.is_exact,
        "time": document.moment(mark.time),
    }


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


def _node(host: str, board: Board) -> dict[str, object]:
    reading = board.usage.get(host)
    return {
        "host": host,
        "unreachable": "no contact" if host in board.lost else None,
        "usage": None if reading is None else _usage(reading),
    }


def _usage(reading: Usage) -> dict[str, object]:
    return {
        "cpu": round(reading.cpu, 3),
        "memory_used": reading.memory_used,
        "memory": reading.memory,
        "received": round(reading.received),
        "sent": round(reading.sent),
        "gpu": reading.gpu,
        "gpu_memory_used": reading.gpu_memory_used,
        "gpu_memory": reading.gpu_memory,
        "steps": {str(step.rank): step.step for step in reading.steps},
    }
