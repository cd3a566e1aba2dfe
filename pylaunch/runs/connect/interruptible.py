"""Work with a fleet on an event loop of its own, and the sources of interrupts that may end that work."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

from pylaunch.model.plan import RunPlan
from pylaunch.runs import steady_clock
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.transport import interrupts

T = TypeVar("T")

InterruptSource = Callable[[Callable[[str], object], float], AbstractContextManager[None]]
"""Deliver the reason of each interrupt to a receiver while a block runs, which may take some seconds after the second
interrupt. The receiver may be called from any thread."""


def signals(receiver: Callable[[str], object], last_s: float) -> AbstractContextManager[None]:
    """SIGINT and SIGTERM of this process, where `transport.interrupts.install` was called."""
    return interrupts.received_by(lambda number: receiver(interrupts.signal_words(number)), last_s)


class Interrupter:
    """Interrupts that a program sends from any thread: the first one stops the run, the second one kills it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[str] = []
        self._receiver: Callable[[str], object] | None = None

    def interrupt(self, reason: str) -> None:
        """End the work that runs now, or else the next one as soon as it begins."""
        with self._lock:
            if self._receiver is None:
                self._pending.append(reason)
            else:
                self._receiver(reason)

    @contextlib.contextmanager
    def __call__(self, receiver: Callable[[str], object], last_s: float) -> Iterator[None]:
        """Deliver to `receiver`; an `InterruptSource`."""
        with self._lock:
            self._receiver = receiver
            for reason in self._pending:
                receiver(reason)
            self._pending.clear()
        try:
            yield
        finally:
            with self._lock:
                self._receiver = None


def on_fleet(
    plan: RunPlan,
    agent: str,
    work: Callable[[Fleet], Coroutine[None, None, T]],
    *,
    source: InterruptSource = signals,
    last_s: float = interrupts.LAST_S,
) -> T:
    """Run `with_fleet` on a new event loop; `source` interrupts the fleet.

    `work` may take `last_s` after the second interrupt.
    """

    async def interruptible(fleet: Fleet) -> T:
        loop = asyncio.get_running_loop()
        with source(lambda reason: loop.call_soon_threadsafe(fleet.interrupt, reason), last_s):
            return await work(fleet)

    return asyncio.run(with_fleet(plan, agent, interruptible))


async def with_fleet(plan: RunPlan, agent: str, work: Callable[[Fleet], Coroutine[None, None, T]]) -> T:
    """Return the result of `work` with connections to the nodes of `plan`, which are closed at the end."""
    with steady_clock.kept():
        fleet = Fleet(plan, agent)
        try:
            return await work(fleet)
        finally:
            await fleet.close()
