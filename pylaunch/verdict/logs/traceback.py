"""Python tracebacks of one process, gathered from a log in which several processes may write. Pure."""

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.verdict.logs.line import LogTime, Origin, ParsedLine

HEADER = "Traceback (most recent call last"
TRACEBACK = HEADER.encode()
LONGEST_UNIT = 400
"""Lines of one process that a chain of tracebacks may have."""

OTHERS = 200
"""Lines of other processes after which a chain has no further exception."""

LONGEST_REACH = 2000
"""Lines of all processes after the first of a chain among which the others are."""

_FRAME = re.compile(r'\s{1,20}File "(?P<path>[^"]{1,400})", line (?P<line>\d{1,7})(?:, in (?P<function>\S{1,200}))?')
_EXCEPTION = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,200})(?:\([\w.]{1,100}\))?(?::\s?(?P<message>.{0,2000}))?$")
_DIGITS = re.compile(r"\d+")
_NAME = re.compile(r"(?:\w{1,200}|<\w{1,40}>)$")
_WRAPPED = "…"
"""In place of the name of a function that is on the next line, for the terminal wrapped the frame."""

_CUT_NAME = re.compile(r"(?:\w+\.)*[A-Z]\w*[a-z]E(?:rr?o?|x(?:c(?:e(?:p(?:t(?:io?)?)?)?)?)?)?$")
"""Name of an exception that the end of a log cuts off."""

LONGEST_PREFIX = 200
MORE_LINES = 5
LONGEST_MORE = 300
"""Characters of a line that continues a message."""

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

    call: str = ""
    """Function of a library that the innermost frame outside of libraries called; "" without one."""

    source: str = ""
    """Line of the script at `place`, where the log shows it."""

    more: str = ""
    """Lines after a message that announces them, such as "because of the following error:"; else "".

    For CUT: the innermost frame with its function and its line of the source.
    """

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
    announced: str = ""
    """Line of a logger right before the unit; "" if it is no such line."""

    is_logged: bool = False
    """A logger printed its level before each line: whoever logs an exception may continue."""


_OF_LOGGER = re.compile(r"\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b|\b[IWEF]\d{4} ")
_LEVEL = re.compile(r"\b(?:WARN(?:ING)?|ERROR)\b")
_WARNING = re.compile(r"\bWARN(?:ING)?\b")
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


def is_handled(unit: ExceptionUnit) -> bool:
    """Return True for an exception that a logger printed as a warning, or with words of a program that continues."""
    head = unit.announced[:300]
    if continues(head):
        return True
    return unit.origin.rank is not None and _WARNING.search(head) is not None


def unit_in(file: str, number: int, line: ParsedLine, text: str) -> ExceptionUnit | None:
    """Return the chain of exceptions in a string of a line, as loggers print it that write JSON."""
    units = UnitGatherer(file)
    first, *rest = (replace(line, text=each) for each in text.split("\n"))
    units.begin(number, first, line)
    ended = (unit for each in rest if (unit := units.take(number, each)) is not None)
    return next(ended, None) or next(iter(units.rest(is_end=True)), None)


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
        self._frames: list[tuple[str, str, str]] = []
        """Places, functions and lines of the source."""

        self._shown = ""
        """Innermost frame of the last exception, with its line of the source."""

        self._in_traceback, self._is_chained = HEADER not in first.text, False
        self._prefix = _prefix_of(first.text)
        self._is_prefixed: bool | None = None if self._prefix else False
        self._begins_below = False
        """True after an exception whose message begins with an empty line."""

        self._last, self._until, self._seen, self._since = number, number, 0, 0
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
        self._seen, self._since = self._seen + 1, self._since + 1
        if self._seen > LONGEST_UNIT:
            return False
        text = own.rstrip()
        if HEADER in text:
            if self._chain and not self._is_chained and _INNER.search(text) is None:
                return False
            self._in_traceback, self._frames = True, []
        elif self._in_traceback and (not text or text[0] in " \t|+"):
            self._adds_frame(text)
            self._until = number
        elif self._in_traceback and self._frames and self._frames[-1][1:] == (_WRAPPED, "") and _NAME.match(text):
            self._frames[-1] = (self._frames[-1][0], text, "")
        elif self._in_traceback:
            if (found := _EXCEPTION.match(text)) is None:
                return False
            raised = RaisedException(found["type"], found["message"] or "", number, *_innermost(self._frames))
            self._chain.append(raised)
            self._begins_below = found["message"] == ""
            self._shown = _shown(self._frames)
            self._last, self._since, self._frames = number, 0, []
            self._in_traceback = raised.type.endswith("RayTaskError")  # The frames of the task are after it.
            self._is_chained = False
        elif text.startswith(CHAINED):
            self._is_chained = True
        elif text and self._chain:
            return self._continues(text)
        return True

    def _adds_frame(self, text: str) -> None:
        """Add a frame, or the first line after it: that of the script."""
        if found := _FRAME.match(f" {text}"):
            function = found["function"] or _WRAPPED * text.endswith(", in")
            self._frames.append((f"{found['path']}:{found['line']}", function, ""))
        elif self._frames and not self._frames[-1][2]:
            self._frames[-1] = (*self._frames[-1][:2], text.strip()[:LONGEST_MORE])

    def _continues(self, text: str) -> bool:
        """Add a line after an exception to its message, if that announces more; return False far from it."""
        if self._since > MORE_LINES:
            return False
        if self._begins_below:
            self._chain[-1] = replace(self._chain[-1], message=text.strip()[:LONGEST_MORE])
            self._begins_below = False
        elif announces_more(self._chain[-1].text):
            self._chain[-1] = replace(self._chain[-1], more=f"{self._chain[-1].more} {text.strip()[:LONGEST_MORE]}")
        return True

    def unit(self, file: str, *, is_end: bool = False) -> ExceptionUnit | None:
        """Return the chain so far; None without an exception, unless the log ends inside a traceback."""
        if is_end and self._in_traceback and self._frames:
            shown = _shown(self._frames)
            self._chain.append(RaisedException(CUT, "", self._until, *_innermost(self._frames), more=shown))
            self._last = self._until
        elif is_end and self._chain and not self._chain[-1].message and _CUT_NAME.match(self._chain[-1].type):
            self._chain[-1] = replace(self._chain[-1], type=CUT, more=self._shown)
        if not self._chain:
            return None
        origin, announced = self._first.origin, ""
        is_once = origin.rank is None or continues(self._before.text[:300])  # A logger prints its prefix once.
        if is_once and _LEVEL.search(self._before.text[:200]):
            announced = self._before.text
            origin = origin if origin.rank is not None else self._before.origin
        is_logged = self._is_prefixed is True and _OF_LOGGER.search(self._first.text.partition(HEADER)[0]) is not None
        chain = tuple(self._chain)
        return ExceptionUnit(origin, self._first.time, file, self._number, self._last, chain, announced, is_logged)


def _prefix_of(text: str) -> re.Pattern[str] | None:
    """Return the pattern of what is before "Traceback" in a line, whatever its numbers are; None if nothing is."""
    before, header, _ = text.partition(HEADER)
    is_prefix = header and before.strip()
    return re.compile(_DIGITS.sub(r"\\d+", re.escape(before[:LONGEST_PREFIX]))) if is_prefix else None


def announces_more(text: str) -> bool:
    """Return True for the message of an exception that continues in the lines after it."""
    return text.rstrip().endswith(":") or "following error" in text or "what():" in text


def is_of_library(place: str) -> bool:
    """Return True if a place is in an installed package or in Python itself."""
    return any(part in place.replace("\\", "/") for part in _LIBRARIES)


def _shown(frames: Sequence[tuple[str, str, str]]) -> str:
    """Return the innermost frame with its function and its line of the source."""
    return "{} in {}: {}".format(*frames[-1]) if frames else ""


def _innermost(frames: Sequence[tuple[str, str, str]]) -> tuple[str, str, str]:
    """Return the place outside of libraries (else the innermost), the function of a library called there, its line."""
    own = [at for at, (place, _, _) in enumerate(frames) if not is_of_library(place)]
    if not own:
        return (frames[-1][0] if frames else ""), "", ""
    calls = [function for _, function, _ in frames[own[-1] + 1 :] if function != "wrapper"]
    return frames[own[-1]][0], calls[0] if calls else "", frames[own[-1]][2]
