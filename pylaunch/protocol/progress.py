"""Messages of a node while its ranks run: starts, output and progress."""

from __future__ import annotations

from pylaunch.base.dataclass import dataclass


@dataclass(frozen=True)
class RankSigns:
    """Signs of life of a rank that need no answer of it."""

    rank: int
    written: int
    """Bytes of its output."""

    step: int | None = None
    """Last step that it marked with `pylaunch.runtime.step`."""

    time: float = 0.0
    """Time of that mark."""

    total: int = 0
    """Total number of steps; 0 where the rank does not report it."""


@dataclass(frozen=True)
class Activity:
    """Signs of life of the ranks of the node that run, at the interval of `Follow.activity_s`."""

    ranks: list[RankSigns]


@dataclass(frozen=True)
class Released:
    time: float
    """Time of the first exec."""


@dataclass(frozen=True)
class RankStarted:
    rank: int
    pid: int
    time: float


@dataclass(frozen=True)
class Output:
    """Whole lines that a rank or the launcher wrote."""

    stream: str
    """`<rank>.out`, `<rank>.err`, `launcher.out` or `launcher.err`; also the name of the log file on the node."""

    offset: int
    """Byte offset after this text: pass it to `Follow` to continue from here."""

    text: str
    time: float


@dataclass(frozen=True)
class Skipped:
    """Part of a log that is not sent: the reader was too slow (`Follow.lag`), or it was removed or cannot be read."""

    stream: str
    start: int
    offset: int
    """Byte offset after the skipped part: pass it to `Follow` to continue from here."""

    path: str
    """Path of the log file on the node."""

    reason: str = ""
    """Path and error for which nothing follows of this log, and of the other logs to which that applies."""


@dataclass(frozen=True)
class CaughtUp:
    """Everything that the followed logs contained when `Follow` arrived has been sent."""
