"""Lines at the bottom of a terminal that change while other output scrolls above them.

They fit the size of the terminal, disappear while the program is suspended (Ctrl-Z) and at the end, and are not drawn
by a background job of the shell.
"""

import contextlib
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from types import FrameType

from rich.cells import cell_len

from pylaunch.model.text.sanitise import RESET, visible_line
from pylaunch.terminal import console
from pylaunch.terminal.columns import cropped
from pylaunch.terminal.listing import duration

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
DIM = "\x1b[2m"
ERASE_S = 1.0
"""Time limit for erasing the lines after Ctrl-Z."""


class _Order(Enum):
    SUSPEND = auto()
    RESUME = auto()
    END = auto()


class LiveArea:
    """Draws the result of `lines` on stderr, every `every_s` seconds and after each output above."""

    def __init__(self, lines: Callable[[], Sequence[str]], every_s: float) -> None:
        self._lines = lines
        self._every_s = every_s
        self._widths: list[int] = []
        """Widths of the lines on the terminal, in cells."""

        self._orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        self._is_erased: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._before: object = None

    def __enter__(self) -> "LiveArea":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTSTP, self._suspend)
        console.lay(self)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._orders.put(_Order.END)
        self._thread.join()
        console.lift(self)
        if self._before is not None:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)

    def erase(self) -> None:
        """Erase the lines. In a terminal that became narrower, one line may fill several rows."""
        if not self._widths:
            return
        columns = console.width_of(sys.stderr)
        rows = sum(max(1, -(-width // columns)) for width in self._widths)
        self._widths = []
        console.put(sys.stderr, "\r\x1b[2K" + "\x1b[1A\x1b[2K" * (rows - 1) + SHOW)

    def draw(self) -> None:
        """Write the lines at the cursor, as many as fit the terminal."""
        if not _is_in_foreground():
            return
        columns, rows = console.size_of(sys.stderr)
        shown = [cropped(visible_line(line), columns - 1) for line in self._lines()[: max(1, rows - 1)]]
        self._widths = [cell_len(line) for line in shown]
        dim, reset = (DIM, RESET) if console.has_colour(sys.stderr) else ("", "")
        console.put(sys.stderr, HIDE + "\n".join(f"{dim}{line}{reset}" for line in shown))

    def _keep(self) -> None:
        while True:
            try:
                order = self._orders.get(timeout=self._every_s)
            except queue.Empty:
                console.redraw(self)
                continue
            if order is _Order.END:
                return
            if order is _Order.SUSPEND:
                console.lift(self)
                self._is_erased.put(None)
            else:
                console.lay(self)

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        """Handle Ctrl-Z: erase the lines, stop, and draw them again when the shell continues the program.

        The thread erases, because this handler may have interrupted a write; the wait for it is limited.
        """
        self._orders.put(_Order.SUSPEND)
        with contextlib.suppress(queue.Empty):
            self._is_erased.get(timeout=ERASE_S)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._suspend)
        self._orders.put(_Order.RESUME)


@contextlib.contextmanager
def working(text: str) -> Iterator[Callable[[str | Callable[[], str]], None]]:
    """Show `text` on a terminal with the time that has passed.

    The function that is returned changes the text; a callable is evaluated at each update.
    """
    since = time.monotonic()
    shown: list[Callable[[], str]] = [lambda: text]

    def change(to: str | Callable[[], str]) -> None:
        shown[0] = to if callable(to) else lambda: to

    if not console.is_drawable():
        yield change
        return
    with LiveArea(lambda: [f"{shown[0]()} ({duration(time.monotonic() - since)})"], 0.5):
        yield change


def _is_in_foreground() -> bool:
    """Return False for a background job; a terminal of another session may be drawn on."""
    try:
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except OSError:
        return True
