"""The output of many ranks as one: ordered by time, the same line of many ranks once. Pure; times are passed in.

Lines wait for WINDOW_S, so that those of other nodes that were written earlier can still come before them. The order of
one rank's own lines never changes: ranks are told together only where the line is the next one of each.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

WINDOW_S = 0.25
"""How long a line waits. Agents look at logs 20 times a second."""

MOST_WAITING = 4 << 20
"""Characters that wait at most: more come out at once."""


@dataclass(frozen=True, order=True)
class LineSource:
    """Who wrote a line."""

    host: str
    who: str
    """A rank's number, or "launcher"."""


@dataclass(frozen=True)
class MergedLine:
    """A line, and all who wrote it."""

    sources: tuple[LineSource, ...]
    channel: str
    """out or err."""

    text: str


@dataclass(frozen=True)
class _PendingLine:
    time: float
    arrived: float
    text: str


@dataclass
class Merge:
    """What has come and was not told yet. A stream is a source and a channel."""

    _queues: dict[tuple[LineSource, str], deque[_PendingLine]] = field(default_factory=dict)
    _order: list[tuple[float, int, tuple[LineSource, str], _PendingLine]] = field(default_factory=list)
    """A heap of the next lines of all streams; one that was told with another stays until it is met."""

    _next: dict[tuple[str, str], set[LineSource]] = field(default_factory=dict)
    """Channel and text → whose next line that is."""

    _serial: Iterator[int] = field(default_factory=itertools.count)
    held_until: float = 0.0
    """Lines of some streams have not come yet, which may be older than any that are here: all wait until then."""

    waiting: int = 0
    """Characters that have not been told."""

    @property
    def is_full(self) -> bool:
        """So much waits that it is no longer made to."""
        return self.waiting > MOST_WAITING

    def add(self, source: LineSource, channel: str, text: str, time: float, now: float) -> None:
        """Whole lines that `source` wrote at `time`, and that came at `now`."""
        stream = (source, channel)
        queue = self._queues.setdefault(stream, deque())
        for each in text.removesuffix("\n").split("\n"):
            queue.append(_PendingLine(time, now, each))
            self.waiting += len(each) + 1
            if len(queue) == 1:
                self._stand(stream)

    def due(self, now: float) -> Iterator[MergedLine]:
        """What has waited long enough, in order."""
        while self._order:
            _, _, stream, line = self._order[0]
            queue = self._queues[stream]
            if not queue or queue[0] is not line:
                heapq.heappop(self._order)
                continue
            if (now < self.held_until or now - line.arrived < WINDOW_S) and not self.is_full:
                return
            yield self._tell(stream[1], line.text)

    def rest(self) -> Iterator[MergedLine]:
        """Everything, at the end."""
        return self.due(float("inf"))

    def _tell(self, channel: str, text: str) -> MergedLine:
        sources = tuple(sorted(self._next.pop((channel, text)), key=_place))
        for source in sources:
            self._queues[source, channel].popleft()
            self.waiting -= len(text) + 1
        for source in sources:
            if self._queues[source, channel]:
                self._stand((source, channel))
        return MergedLine(sources, channel, text)

    def _stand(self, stream: tuple[LineSource, str]) -> None:
        """The first line of a stream's queue is its next one."""
        line = self._queues[stream][0]
        heapq.heappush(self._order, (line.time, next(self._serial), stream, line))
        self._next.setdefault((stream[1], line.text), set()).add(stream[0])


def _place(source: LineSource) -> tuple[int, str]:
    return (int(source.who) if source.who.isdecimal() else -1), source.host
