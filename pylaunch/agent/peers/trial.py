"""Test connections to the other agents of a live run, in a thread: the agent continues meanwhile."""

from __future__ import annotations

import os
import threading

from pylaunch.agent.peers import neighbours
from pylaunch.agent.shared.event_loop import EventLoop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

WITHIN_S = 1.5
"""Shorter than the time for which a node holds its ranks after a victim. Linux repeats a lost SYN after 1 s."""


def try_again(
    loop: EventLoop, targets: dict[str, neighbours.Target], deliver: Callable[[dict[str, str]], None]
) -> None:
    """Connect to all `targets` at once, and call `deliver` on `loop` with the result of each."""
    reading, writing = os.pipe()
    ends: dict[str, str] = {}

    def work() -> None:
        ends.update(neighbours.try_connections(targets, within_s=WITHIN_S))
        os.close(writing)

    def finish() -> None:
        loop.forget(reading)
        os.close(reading)
        deliver(ends)

    loop.watch(reading, finish)
    threading.Thread(target=work, daemon=True).start()
