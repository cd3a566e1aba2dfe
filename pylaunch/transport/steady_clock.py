"""Time as this process counts it: a clock that nobody sets, limits without its pauses, awaited hosts.

The clock is the wall clock when the process began, and the seconds that the kernel has counted since. A wall clock that
is set during a run, as after a laptop woke up, would give the run another order of events and another duration. The
kernel also counts while the machine sleeps. A process that serves for days takes the wall clock again for a run that it
begins while it follows no other.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence


def now() -> float:
    """Return seconds since the epoch."""
    return _began + time.clock_gettime(_CLOCK)


def begin() -> None:
    """Take the wall clock as it is now, unless a run is followed."""
    global _began
    if not _kept:
        _began = time.time() - time.clock_gettime(_CLOCK)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Follow a run: `begin`, and keep that clock to the end of the block."""
    begin()
    _kept.append(None)
    try:
        yield
    finally:
        _kept.pop()


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # That of macOS counts during sleep, too.
_kept: list[None] = []
_began = 0.0
begin()


TICK_S = 0.5


@contextlib.asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError in the block once this process has listened for `seconds`."""
    async with asyncio.timeout(None) as limit:
        counting = asyncio.ensure_future(_end(limit, seconds))
        try:
            yield
        finally:
            counting.cancel()


async def _end(limit: asyncio.Timeout, seconds: float) -> None:
    left_s = seconds
    while left_s > 0:
        tick_s = min(TICK_S, left_s)
        await asyncio.sleep(tick_s)  # However long it takes, it counts as one tick.
        left_s -= tick_s
    limit.reschedule(asyncio.get_running_loop().time())


SILENT_S = 3.0
"""Time after which a host that has not answered is reported; between two reports it is as long."""

TOGETHER_S = 1.0
"""Hosts that will be silent so soon are in the same report."""

Report = Callable[[Sequence[str], float], None]
"""Receives the hosts, and the seconds after which the last of them is given up."""


class Awaited:
    """Hosts that are awaited now. Threads and event loops share them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._waits: dict[str, list[tuple[float, float]]] = {}
        """Begin and deadline of each wait, by host."""

        self._reported: set[str] = set()
        self._reported_at = float("-inf")
        self._report: Report | None = None
        self._watch: threading.Thread | None = None

    def report_to(self, report: Report | None) -> None:
        """Call `report` in a thread for hosts that stay silent, once for each time that they are awaited."""
        self._report = report

    @contextlib.contextmanager
    def hosts(self, names: Iterable[str], within_s: float) -> Iterator[Callable[[str], None]]:
        """Await `names` in this block, for `within_s` seconds at most, or until the function gets their name."""
        wait = (now := self._clock(), now + within_s)
        left = set(names)

        def answered(name: str) -> None:
            if name not in left:
                return
            left.discard(name)
            with self._changed:
                self._waits[name].remove(wait)
                if not self._waits[name]:
                    del self._waits[name]
                    self._reported.discard(name)
                self._changed.notify()

        with self._changed:
            for name in left:
                self._waits.setdefault(name, []).append(wait)
            if self._report is not None and self._watch is None and left:
                self._watch = threading.Thread(target=self._name_silent, daemon=True)
                self._watch.start()
        try:
            yield answered
        finally:
            for name in tuple(left):
                answered(name)

    def silent(self) -> tuple[list[str], float]:
        """Return the hosts to report now, with the time until they are given up; for none, the time to wait."""
        now = self._clock()
        begun = {name: min(waits)[0] for name, waits in self._waits.items() if name not in self._reported}
        due_at = max(min(begun.values(), default=float("inf")), self._reported_at) + SILENT_S
        if due_at > now:
            return [], due_at - now
        named = [name for name, since in begun.items() if since + SILENT_S <= now + TOGETHER_S]
        self._reported.update(named)
        self._reported_at = now
        return named, max(min(until for _, until in self._waits[name]) for name in named) - now

    def _name_silent(self) -> None:
        while True:
            with self._changed:
                if not self._waits:
                    self._watch = None
                    return
                named, seconds = self.silent()
                if not named:
                    self._changed.wait(min(seconds, threading.TIMEOUT_MAX))
            if named and self._report is not None:
                self._report(named, seconds)


AWAITED = Awaited()
"""The terminal is that of this process, so all requests of this process share them."""
