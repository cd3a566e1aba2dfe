"""Python tracebacks of one process, gathered from a log in which several processes may write. Pure."""

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.verdict.logs.line import LogTime, Origin, ParsedLine

HEADER = "Traceback (most recent call last"
TRACEBACK = HEADER.encode()
LONGEST_UNIT = 400
"""Lines of one process that a chain of tracebacks may have."""

OTHERS = 200
"""Lines of other processes after which a chain has no further exception."""

LONGEST_REACH = 2000
"""Lines of all processes after the first of a chain among which the others are."""

_FRAME = re.compile(r'\s{1,20}File "(?P<path>[^"]{1,400})", line (?P<line>\d{1,7})')
_EXCEPTION = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,200})(?:\([\w.]{1,100}\))?(?::\s?(?P<message>.{0,2000}))?$")
_DIGITS = re.compile(r"\d+")
LONGEST_PREFIX = 200
MORE_LINES = 5
"""Lines of a process that a message of an exception may have before the next one of its chain."""

_INNER = re.compile(r"^Original Traceback|last\): \(RANK \d{1,7}\)")
"""Traceback of a worker or another rank, in the message of the exception of PyTorch that reports it."""

CUT = "Traceback without its exception"
"""Type of an exception that a log does not show because it ends before it."""

CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
"""Beginnings of the lines between two tracebacks of one chain."""

_LIBRARIES = ("site-packages/", "dist-packages/", "/lib/python", "<frozen", "<string>", ".pyx:", ".pxi:")


@dataclass(frozen=True)
class RaisedException:
    """One exception of a chain."""

    type: str
    message: str
    line: int
    """Line of the log."""

    place: str
    """Innermost frame outside of libraries as PATH:LINE; else the innermost; "" without frames."""

    is_of_program: bool = False
    """True if the innermost frame is outside of libraries."""

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
    is_logged: bool = False
    """A logger printed its level before each line: whoever logs an exception may continue."""

    is_warned: bool = False
    """The line before it is a warning of its rank, or has words of a program that continues."""


_OF_LOGGER = re.compile(r"\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b|\b[IWEF]\d{4} ")
_LEVEL = re.compile(r"\b(?:WARN(?:ING)?|ERROR)\b")
_INSTEAD = r"using (?:\S{1,40} ){0,5}(?:defaults?|instead)|default(?:ing to| \w{1,20} (?:is|are) used)|fall\w{0,3} back"
_REPLACES = re.compile(rf"(?i)\b(?:{_INSTEAD})\b")
_CONTINUES = re.compile(
    rf"(?i)\b(?:{_INSTEAD}|ignor(?:ed|ing)|continu\w{{2,4}}|retr(?:y|ied|ies|ying)|skip(?:s|ped|ping)?"
    r"|(?<=[,;:] )using|from scratch"
    r"|rebuild\w{0,3}|reopen\w{0,3}|recover\w{0,3}|again|(?:is |turned )?(?:off|disabled)(?=:))\b"
)


def lines_inside(units: Iterable[ExceptionUnit]) -> Callable[[int], bool]:
    """Return the function that says of a line of a log whether it is inside one of its `units`."""
    order = sorted((unit.line, unit.last) for unit in units)
    starts, ends = [first for first, _ in order], [*itertools.accumulate((last for _, last in order), max)]

    def is_inside(line: int) -> bool:
        at = bisect_right(starts, line) - 1
        return at >= 0 and line <= ends[at]

    return is_inside


def continues(text: str) -> bool:
    """Return True for the words of a program that continues after an error."""
    return _CONTINUES.search(text) is not None and "giving up" not in text


def names_substitute(text: str) -> bool:
    """Return True for the words of a program that uses something else in place of what failed."""
    return _REPLACES.search(text) is not None


class UnitGatherer:
    """Gathers the chains of exceptions of all processes of a log at once: each line is read once."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._growing: dict[Origin, _Growing] = {}

    @property
    def is_gathering(self) -> bool:
        """True while some chain may continue."""
        return bool(self._growing)

    def is_inside(self, origin: Origin) -> bool:
        """Return True if a line of this process belongs to a chain that has begun."""
        return origin in self._growing

    def begin(self, number: int, first: ParsedLine, before: ParsedLine) -> None:
        """Begin a chain at line `number`, which has TRACEBACK or is a frame, after the line `before`."""
        self._growing[first.origin] = _Growing(number, first, before)

    def take(self, number: int, line: ParsedLine) -> ExceptionUnit | None:
        """Add a line to the chain of its process; return the chain if it ends before the line."""
        growing = self._growing.get(line.origin)
        if growing is None or growing.takes(number, line.text):
            return None
        del self._growing[line.origin]
        return growing.unit(self._file)

    def ended(self, number: int) -> list[ExceptionUnit]:
        """Remove the chains that no line after `number` can continue, and return those that have an exception."""
        over = [origin for origin, growing in self._growing.items() if growing.is_over(number)]
        units = [self._growing.pop(origin).unit(self._file) for origin in over]
        return [unit for unit in units if unit is not None]

    def rest(self, *, is_end: bool = False) -> list[ExceptionUnit]:
        """Remove all chains and return those with an exception; at the end of a log also those that it cuts off."""
        units = [growing.unit(self._file, is_end=is_end) for growing in self._growing.values()]
        self._growing.clear()
        return [unit for unit in units if unit is not None]


class _Growing:
    """Chain of exceptions of one process, of which more lines may follow."""

    def __init__(self, number: int, first: ParsedLine, before: ParsedLine) -> None:
        self._first, self._number, self._before = first, number, before
        self._chain: list[RaisedException] = []
        self._frames: list[str] = []
        self._in_traceback, self._is_chained = HEADER not in first.text, False
        self._prefix = _prefix_of(first.text)
        self._is_prefixed: bool | None = None if self._prefix else False
        self._last, self._until, self._seen = number, number, 0
        self.takes(number, first.text)

    def is_over(self, number: int) -> bool:
        """Return True if a line with this number is too far away to belong to the chain."""
        if number - self._number >= LONGEST_REACH:
            return True
        return bool(self._chain) and not self._in_traceback and number - self._last > OTHERS

    def _unprefixed(self, text: str) -> str | None:
        """Return a line without what its logger prints before each line of a traceback; None for another process.

        The first frame shows whether all lines have it, or the first one alone.
        """
        if self._prefix is None or self._is_prefixed is False:
            return text
        found = self._prefix.match(text)
        rest = text[found.end() :] if found else None
        if self._is_prefixed is None and (is_frame := _FRAME.match(f" {text}") or _FRAME.match(f" {rest or ''}")):
            self._is_prefixed = rest is not None and is_frame.string.endswith(rest)
        if HEADER in text and (self._is_prefixed is None or rest is not None or self._chain):
            return text
        return rest if self._is_prefixed else text if self._is_prefixed is False else None

    def takes(self, number: int, text: str) -> bool:
        """Add a line of the process; return False if the chain ended before it."""
        if self.is_over(number):
            return False
        own = self._unprefixed(text)
        if own is None:
            return True
        self._seen += 1
        if self._seen > LONGEST_UNIT:
            return False
        text = own.rstrip()
        if HEADER in text:
            if self._chain and not self._is_chained and _INNER.search(text) is None:
                return False
            self._in_traceback, self._frames = True, []
        elif self._in_traceback and (not text or text[0] in " \t|+"):
            if found := _FRAME.match(f" {text}"):
                self._frames.append(f"{found['path']}:{found['line']}")
            self._until = number
        elif self._in_traceback:
            if (found := _EXCEPTION.match(text)) is None:
                return False
            raised = RaisedException(found["type"], found["message"] or "", number, *_innermost(self._frames))
            self._chain.append(raised)
            self._last, self._frames = number, []
            self._in_traceback = raised.type.endswith("RayTaskError")  # The frames of the task are after it.
            self._is_chained = False
        elif text.startswith(CHAINED):
            self._is_chained = True
        elif text and self._chain:
            return number - self._last <= MORE_LINES
        return True

    def unit(self, file: str, *, is_end: bool = False) -> ExceptionUnit | None:
        """Return the chain so far; None without an exception, unless the log ends inside a traceback."""
        if is_end and self._in_traceback and self._frames:
            self._chain.append(RaisedException(CUT, "", self._until, *_innermost(self._frames)))
            self._last = self._until
        if not self._chain:
            return None
        origin, head = self._first.origin, self._first.text.partition(HEADER)[0]
        before, is_warned = self._before.text[:300], False
        if _LEVEL.search(before[:200]) and (origin.rank is None or continues(before)):
            origin = self._before.origin if origin.rank is None else origin
            is_warned = continues(before) or (origin.rank is not None and "WARN" in before)
        is_logged = self._is_prefixed is True and _OF_LOGGER.search(head) is not None
        return ExceptionUnit(origin, self._first.time, file, self._number, self._last, tuple(self._chain), is_logged,
                             is_warned)  # fmt: skip


def _prefix_of(text: str) -> re.Pattern[str] | None:
    """Return the pattern of what is before "Traceback" in a line, whatever its numbers are; None if nothing is."""
    before, header, _ = text.partition(HEADER)
    is_prefix = header and before.strip()
    return re.compile(_DIGITS.sub(r"\\d+", re.escape(before[:LONGEST_PREFIX]))) if is_prefix else None


def _innermost(frames: Sequence[str]) -> tuple[str, bool]:
    """Return the innermost place outside of installed packages and Python, else the innermost; True if it is both."""
    own = [each for each in frames if not any(part in each.replace("\\", "/") for part in _LIBRARIES)]
    place = (own or frames or [""])[-1]
    return place, bool(own) and place is frames[-1]
