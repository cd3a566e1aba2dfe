"""Python tracebacks of one process, gathered from a log in which several processes may write. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pylaunch.explain.logs.line import LogTime, Origin, ParsedLine

TRACEBACK = b"Traceback (most recent call last"
LONGEST_UNIT = 400
"""Lines of one process that a chain of tracebacks may have."""

OTHERS = 200
"""Lines of other processes after which a chain has no further exception."""

_FRAME = re.compile(r'\s{1,20}File "(?P<path>[^"]{1,400})", line (?P<line>\d{1,7})(?:, in (?P<function>\S{1,200}))?')
_EXCEPTION = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,200})(?::\s?(?P<message>.{0,2000}))?$")
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
_LIBRARIES = ("site-packages/", "dist-packages/", "/lib/python", "<frozen", "<string>")


@dataclass(frozen=True)
class RaisedException:
    """One exception of a chain."""

    type: str
    message: str
    line: int
    """Line of the log."""

    place: str
    """Innermost frame outside of libraries as PATH:LINE; else the innermost; "" without frames."""

    @property
    def text(self) -> str:
        """Type and message as printed."""
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(frozen=True)
class ExceptionUnit:
    """Chain of exceptions of one process, in the order in which they were raised."""

    origin: Origin
    time: LogTime | None
    file: str
    line: int
    """First line of the unit."""

    last: int
    """Last line of the unit."""

    chain: tuple[RaisedException, ...]


def gather(file: str, number: int, first: ParsedLine, following: Iterable[ParsedLine]) -> ExceptionUnit | None:
    """Return the chain of exceptions that begins with `first`, line `number` of the file; None if it does not end."""
    origin = first.origin
    chain: list[RaisedException] = []
    frames: list[str] = []
    in_traceback = False
    last, seen, since = number, 0, 0
    for at, line in enumerate(itertools.chain((first,), following)):
        if line.origin != origin:
            if chain and not in_traceback and number + at - last > OTHERS:
                break
            continue
        seen, since = seen + 1, since + 1
        if seen > LONGEST_UNIT:
            break
        text = line.text.rstrip()
        if "Traceback (most recent call last" in text:
            in_traceback, frames = True, []
        elif in_traceback and (not text or text[0] in " \t|+"):
            if found := _FRAME.match(text):
                frames.append(f"{found['path']}:{found['line']}")
        elif in_traceback:
            if (found := _EXCEPTION.match(text)) is None:
                break
            chain.append(RaisedException(found["type"], found["message"] or "", number + at, _place(frames)))
            last, since, in_traceback = number + at, 0, False
        elif text.startswith(_CHAINED) or not text:
            continue
        elif chain and since > 3:
            break
    return ExceptionUnit(origin, first.time, file, number, last, tuple(chain)) if chain else None


def _place(frames: list[str]) -> str:
    own = [frame for frame in frames if not any(part in frame for part in _LIBRARIES)]
    return (own or frames or [""])[-1]
