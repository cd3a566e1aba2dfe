"""Limit of the time of a run that pylaunch starts for a test of its own."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.runs.connect.interruptible import InterruptSource


@dataclass
class TimeLimit:
    """Interrupts of the caller, and one after `seconds`."""

    seconds: float
    what: str
    """Name of the run in the reason of its interrupt."""

    source: InterruptSource
    is_over: bool = False

    @contextlib.contextmanager
    def interrupts(self, receiver: Callable[[str], object], last_s: float) -> Iterator[None]:
        """Deliver the interrupts to `receiver` during the block."""

        def end() -> None:
            self.is_over = True
            receiver(f"{self.what} did not end within {self.seconds:g} s")

        timer = threading.Timer(self.seconds, end)
        timer.daemon = True
        with self.source(receiver, last_s):
            timer.start()
            try:
                yield
            finally:
                timer.cancel()
