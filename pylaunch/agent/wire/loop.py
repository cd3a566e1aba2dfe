"""One thread that waits for many things: what to do when each of them is ready, and which signals have come."""

from __future__ import annotations

import os
import selectors
import signal
import socket
from typing import Callable


class Loop:
    """Descriptors and what to do when one can be read, or written when that is asked for."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def watch(self, source: socket.socket | int, act: Callable[[], None]) -> None:
        """Call `act` whenever `source` can be read."""
        self._selector.register(source, selectors.EVENT_READ, act)

    def watch_writing(self, source: socket.socket | int, *, wanted: bool) -> None:
        """Wake up, or no longer wake up, also when `source` can be written."""
        key = self._selector.get_key(source)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
        if key.events != events:
            self._selector.modify(source, events, key.data)

    def forget(self, source: socket.socket | int) -> None:
        """Watch `source` no longer; to be said before it is closed."""
        self._selector.unregister(source)

    def wait(self, timeout_s: float | None) -> None:
        """Wait until something is ready, or for `timeout_s`, and act on all that is."""
        for key, events in self._selector.select(timeout_s):
            still = self._selector.get_map().get(key.fd)
            if events & selectors.EVENT_READ and still is not None and still.data is key.data:
                key.data()

    def watch_signals(self, signums: set[signal.Signals], act: Callable[[set[int]], None]) -> None:
        """Call `act` with the numbers of the signals that have come."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing)
        for signum in signums:
            signal.signal(signum, _noted)
        self.watch(reading, lambda: act(set(os.read(reading, 4096))))


def _noted(signum: int, frame: object) -> None:
    """The wakeup descriptor has it already."""
