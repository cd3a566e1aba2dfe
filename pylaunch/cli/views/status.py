"""`status --watch`: one live run, or all, on a terminal, in a pipe or as JSON. Ctrl-C ends only the watching."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from queue import SimpleQueue
from typing import TYPE_CHECKING

from pylaunch.model.hostset import fold
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.protocol.usage_report import Usage
from pylaunch.runs import steady_clock
from pylaunch.runs.connect.interruptible import Interrupter, signals
from pylaunch.runs.events import RunEvent
from pylaunch.runs.status import previous_attempt
from pylaunch.runs.watch import LiveRuns, glimpse, watch_run
from pylaunch.terminal import console, document
from pylaunch.terminal.listing import duration
from pylaunch.terminal.views.board import Board, Pace, RankStep
from pylaunch.terminal.views.live import REDRAW_S, has_board
from pylaunch.terminal.views.run_data import previous_data

if TYPE_CHECKING:
    from rich.table import Table

USAGE_S = 2.0
GLIMPSE_USAGE_S = 0.5
QUIET_S = 60.0
"""In plain lines, the interval while only steps and load change."""

REFRESH_S = 1.0
"""Interval at which the records of all runs are read."""

COLUMNS = ("RUN", "STATUS", "FOR", "RANKS", "HOSTS", "PROGRESS")

View = Callable[[Board, float], None]
"""Shows a model of a run; called twice a second with seconds since the epoch."""


def watch_attempts(record: RunRecord, *, as_json: bool) -> RunRecord | None:
    """Show a run and the attempts after it until the last one is over; return its record, or None after Ctrl-C."""
    with _view(as_json=as_json) as view:
        return watch_run(record, lambda plan: Spectator(plan, view), signals)


def watch_all(*, as_json: bool) -> None:
    """Show the live runs that are recorded here, also those that begin meanwhile, until none is left or Ctrl-C."""
    documents: SimpleQueue[Mapping[str, object]] = SimpleQueue()
    on_screen = not as_json and has_board()
    rows: dict[str, tuple[str, ...]] = {}

    def keep(board: Board, now: float) -> None:
        rows[board.plan.run] = row(board, now)  # In the thread that changes the model; the table is drawn in another.

    def onlooker(plan: RunPlan, _: object) -> Spectator:
        shown = keep if on_screen else plain_view()
        return Spectator(plan, json_view(documents.put) if as_json else shown)

    def table() -> "Table":
        now = [rows.get(each.board.plan.run) for each in live.onlookers]
        return console.table_of(COLUMNS, sorted(filter(None, now)))

    live = LiveRuns[Spectator](onlooker)
    with contextlib.ExitStack() as stack:
        stack.callback(live.close)
        if on_screen:
            stack.enter_context(console.drawn(table, REDRAW_S))
        try:
            while _refreshed(live):
                while not documents.empty():
                    document.line(documents.get())
                threading.Event().wait(REFRESH_S)
        except KeyboardInterrupt:
            console.say("the runs continue")


def _refreshed(live: "LiveRuns[Spectator]") -> bool:
    """Read the records and print which runs have ended; return False when none is live."""
    for record in live.refresh():
        if record.outcome is not None:
            console.say(f"run {record.plan.run} {record.outcome.status.value}: {record.outcome.reason}")
    return live.is_watching


def board_now(record: RunRecord, hosts: Iterable[str]) -> Board:
    """Return the model of a live run as it is now, with the load and the last lines of those `hosts` that answer."""
    interrupter = Interrupter()
    awaited = frozenset(hosts)

    def look(board: Board, _: float) -> None:
        """Interrupt when every host has reported its load, which is after the last lines of its ranks."""
        if awaited <= board.usage.keys():
            interrupter.interrupt("enough")

    # `status` has printed what the nodes answered.
    spectator = Spectator(record.plan, look, say=lambda _: None)
    spectator.usage_every_s = GLIMPSE_USAGE_S
    glimpse(record, awaited, spectator, interrupter)
    spectator.board.pace = Pace()  # A rate of marks that were made before has the precision of their dates: too little.
    return spectator.board


class Spectator:
    """An onlooker of a run that keeps its model. The record is left alone."""

    def __init__(self, plan: RunPlan, view: View, say: Callable[[str], None] = console.say) -> None:
        self.board = Board(plan, previous_attempt(plan))
        self.usage_every_s = USAGE_S
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

    def lose_all(self) -> None:
        """Show that no node can be reached."""
        self.board.lose_all()
        self.look()


@contextlib.contextmanager
def _view(*, as_json: bool) -> Iterator[View]:
    if as_json or not has_board():
        yield json_view(document.line) if as_json else plain_view()
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


def json_view(say: Callable[[Mapping[str, object]], None]) -> View:
    """Return a view that prints one object a line, as often as nodes report their load."""
    due = 0.0

    def show(board: Board, now: float) -> None:
        nonlocal due
        if now >= due:
            due = now + USAGE_S
            say(snapshot(board, now))

    return show


def row(board: Board, now: float) -> tuple[str, ...]:
    """Return the cells of a run in the table of all."""
    lost = f", no contact with {fold(board.lost)}" if board.lost else ""
    return (
        board.plan.run,
        board.phase + lost,
        "" if board.started_at is None else duration(now - board.started_at),
        f"{len(board.running)} of {board.plan.world_size}",
        fold(node.host.name for node in board.plan.nodes),
        board.progress(now),
    )


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
