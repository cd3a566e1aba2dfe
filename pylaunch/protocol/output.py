"""Messages that carry the logs of ranks and launchers."""

from __future__ import annotations

from pylaunch.base.dataclass import dataclass


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
