"""A live run on a terminal: lines of all ranks by time, identical lines once, above a status board.

Where stdout or stderr is no terminal, lines are printed as they arrive, one per rank (`live`).
"""

import contextlib
import sys
import threading
import time
from collections.abc import Iterable, Iterator

from pylaunch.model.hostset import fold
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event
from pylaunch.protocol.usage_report import Usage
from pylaunch.runs import steady_clock
from pylaunch.runs.follow.merge import LineSource, Merge, MergedLine
from pylaunch.terminal import console
from pylaunch.terminal.live_area import LiveArea
from pylaunch.terminal.views.board import Board
from pylaunch.terminal.views.live import Live, visible_part

TICK_S = 0.1
HOLD_S = 10.0
"""Time limit of an attached terminal for the earlier output of all nodes."""

REDRAW_S = 0.5
"""Interval of drawing the board."""

USAGE_S = 2.0
"""Interval at which nodes report their load."""


@contextlib.contextmanager
def watching(plan: RunPlan, *, leads: bool = False) -> Iterator[Live]:
    """Show a live run: with a board on a terminal, in plain lines elsewhere."""
    if not has_board():
        yield Live(plan, leads=leads)
        return
    with Terminal(plan, leads=leads) as terminal:
        yield terminal


def has_board() -> bool:
    """Return True where a live run is drawn, because a person looks at a terminal."""
    return console.is_terminal(sys.stdout) and console.is_drawable()


class Terminal(Live):
    """Prints lines after a short delay, from its own thread, so that older lines of other nodes come first."""

    usage_every_s = USAGE_S

    def __init__(self, plan: RunPlan, *, leads: bool = False) -> None:
        super().__init__(plan, leads=leads)
        self._board = Board(plan)
        self._merge = Merge()
        self._lock = threading.Lock()
        """Protects the board and the lines that wait."""

        self._showing = threading.Lock()
        """Held from taking lines until they are printed, to keep their order."""

        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._area = LiveArea(self._drawn, REDRAW_S)

    def __enter__(self) -> "Terminal":
        self._area.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._show(self._merge.rest())
        self._area.__exit__(*exception)

    def event(self, event: Event) -> None:
        """Print and draw it."""
        with self._lock:
            self._board.on(event)
        super().event(event)

    def usage(self, host: str, reading: Usage) -> None:
        """Draw it with the next update."""
        with self._lock:
            self._board.read(host, reading)

    def hold(self) -> None:
        """Delay lines until those of other nodes that may be older have arrived."""
        with self._lock:
            self._merge.held_until = _now() + HOLD_S

    def catch_up(self) -> None:
        """Print the delayed lines by time."""
        with self._lock:
            self._merge.held_until = 0.0

    def output(self, host: str, stream: str, text: str, time: float) -> None:
        """Queue lines for printing. A flood is printed in this call, so that nodes send no faster than it prints."""
        text = self._pieces.joined((host, stream), text)
        if not text:
            return
        who, _, channel = stream.partition(".")
        with self._lock:
            self._board.wrote(stream, text, time)
            self._merge.add(LineSource(host, who), channel, text, time, _now())
            is_flood = self._merge.is_full
        if is_flood:
            self._show_what_is_due()

    def _tick(self) -> None:
        while not self._is_over.wait(TICK_S):
            self._show_what_is_due()

    def _show_what_is_due(self) -> None:
        with self._showing:
            with self._lock:
                due = list(self._merge.due(_now()))
            self._show(due)

    def _show(self, lines: Iterable[MergedLine]) -> None:
        prefixed = [(f"{self._prefix(line)} | ", visible_part(line.text)) for line in lines]
        if prefixed:
            console.rank_lines(sys.stderr, prefixed)

    def _prefix(self, line: MergedLine) -> str:
        if len(line.sources) == 1:
            only = line.sources[0]
            return f"{f'{only.host}:{only.who}':<{self._width}}"
        if line.sources[0].who.isdecimal():
            return f"{fold(source.who for source in line.sources):<{self._width}}"
        return f"{fold(source.host for source in line.sources)}:{line.sources[0].who}"

    def _drawn(self) -> list[str]:
        with self._lock:
            return self._board.lines(steady_clock.now())


def _now() -> float:
    return time.monotonic()
