"""The output of many ranks as one: ordered by time, the same line of many ranks once. Pure; times are passed in.

Lines wait for WINDOW_S, so that earlier lines of other nodes can still be printed before them. The lines of one rank
never change their order: ranks share a line only where it is the next line of each.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Iterator

from pylaunch.base.dataclass import dataclass, field

WINDOW_S = 0.25
"""Delay of every line. Agents look at their logs ten times a second."""

MOST_WAITING = 4 << 20
"""Characters that wait at most; beyond that, lines are released at once."""


@dataclass(frozen=True, order=True)
class LineSource:
    """Writer of a line."""

    host: str
    who: str
    """A rank's number, or "launcher"."""


@dataclass(frozen=True)
class MergedLine:
    """A line, and all of its writers."""

    sources: tuple[LineSource, ...]
    text: str


@dataclass(frozen=True)
class _PendingLine:
    time: float
    arrived: float
    text: str


@dataclass
class Merge:
    """Lines that wait. A stream is a source and a channel."""

    _queues: dict[tuple[LineSource, str], deque[_PendingLine]] = field(default_factory=dict)
    _order: list[tuple[float, int, tuple[LineSource, str], _PendingLine]] = field(default_factory=list)
    """Heap of the next lines of all streams; a line that was released with another one stays until it is at the top."""

    _next: dict[tuple[str, str], set[LineSource]] = field(default_factory=dict)
    """Sources whose next line has this channel and text."""

    _serial: Iterator[int] = field(default_factory=itertools.count)
    held_until: float = 0.0
    """All lines wait until this time, because older lines of some streams have not arrived."""

    waiting: int = 0
    """Characters that wait."""

    @property
    def is_full(self) -> bool:
        """More waits than MOST_WAITING."""
        return self.waiting > MOST_WAITING

    def add(self, source: LineSource, channel: str, text: str, time: float, now: float) -> None:
        """Add whole lines that `source` wrote at `time`, and that arrived at `now`."""
        stream = (source, channel)
        queue = self._queues.setdefault(stream, deque())
        for each in text.removesuffix("\n").split("\n"):
            queue.append(_PendingLine(time, now, each))
            self.waiting += len(each) + 1
            if len(queue) == 1:
                self._enqueue(stream)

    def due(self, now: float) -> Iterator[MergedLine]:
        """Release the lines that waited long enough, in order."""
        while self._order:
            _, _, stream, line = self._order[0]
            queue = self._queues[stream]
            if not queue or queue[0] is not line:
                heapq.heappop(self._order)
                continue
            if (now < self.held_until or now - line.arrived < WINDOW_S) and not self.is_full:
                return
            yield self._release(stream[1], line.text)

    def rest(self) -> Iterator[MergedLine]:
        """Release everything, at the end."""
        return self.due(float("inf"))

    def _release(self, channel: str, text: str) -> MergedLine:
        sources = tuple(sorted(self._next.pop((channel, text)), key=_place))
        for source in sources:
            self._queues[source, channel].popleft()
            self.waiting -= len(text) + 1
        for source in sources:
            if self._queues[source, channel]:
                self._enqueue((source, channel))
        return MergedLine(sources, text)

    def _enqueue(self, stream: tuple[LineSource, str]) -> None:
        """Queue the first line of a stream as its next one."""
        line = self._queues[stream][0]
        heapq.heappush(self._order, (line.time, next(self._serial), stream, line))
        self._next.setdefault((stream[1], line.text), set()).add(stream[0])


def _place(source: LineSource) -> tuple[int, str]:
    return (int(source.who) if source.who.isdecimal() else -1), source.host
