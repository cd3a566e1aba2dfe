"""Form of an error: whether a line reports one, by its level and its words alone. Pure.

No list of known errors: the form is that of levels (ERROR, `E1122`, `[error]`, `level=error`), exceptions, the last
words of programs (panic, terminate, Killed), texts of errno, refusals of shells, and reports of ends. Each expression
is bounded, and only the first LONGEST characters of a line are read.
"""

import re
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache

from pylaunch.features.explain.judgement import error_words as words
from pylaunch.verdict.logs.scan import KeptLine, LineForm, LogScan, LogSearch
from pylaunch.verdict.logs.signature import SignatureCatalogue
from pylaunch.verdict.logs.uncaught import lost_another, reports_an_end

LONGEST = 600
_ALIKE = str.maketrans("234678", "111111")
"""Digits that make no difference: lines that differ in them have one form. 0 is no error, 15 a signal, 5 an adapter."""

_NUMBERS = re.compile(r"[0-9a-f]*\d[0-9a-f]*")
HEAD = 160
"""Characters at the beginning of a line among which its level is."""


class ErrorWeight(IntEnum):
    """Strength of a form as a sign that its process ends; the smallest is the strongest."""

    ENDS = 0
    """The process ends with it: an exception, a panic, a level of FATAL, a signal."""

    ERROR = 1
    """An error by its level or by a text of errno."""

    FAILURE = 2
    """Words of a failure, without a level."""

    VICTIM = 3
    """Text of a process that lost another one, or received a signal to stop."""

    REPORT = 4
    """Report about the end of another process."""


_QUIET = r"TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?"
_ERROR = r"ERROR|ERR|SEVERE"
_FATAL = r"CRITICAL|CRIT|FATAL|ALERT|EMERG|PANIC"
_LEVEL = re.compile(
    rf"(?<![\w.\"'=])(?:(?P<quiet>{_QUIET})|(?P<error>{_ERROR})|(?P<fatal>{_FATAL}))(?![\w.=])"
    r"|(?:^|[\[\s])(?:(?P<glog>[DIWEF])(?:\d{3,4} \d\d:\d\d:|\d{4} \d{5,12} | \S{1,120}\.(?:cpp|cc|cu|h|hpp|go|py)\b))"
    r"|\[(?:(?P<quiet2>trace|debug|info|notice|warn|warning)|(?P<error2>error|err|e)|(?P<fatal2>critical|fatal|c))\]"
    r"|(?:\blevel=|\"(?:level|severity|levelname)\": ?)\"?"
    r"(?:(?P<quiet3>(?i:trace|debug|info|notice|warn(?:ing)?))|(?P<error3>(?i:err(?:or)?))|(?P<fatal3>(?i:fatal|critical|panic)))\b"
)
_NCCL_WARN = re.compile(r"\b(?:NCCL|RCCL|CCOM) WARN\b|\.(?:cc|cu):\d{1,5} WARN\b")
_EVENT = re.compile(
    r"^Warning {2,}(?:Failed\w{0,30}|BackOff|Evicted|OOMKilling|NodeNotReady) "
    r"|^Warning {1,9}Unhealthy .{0,80}(?:Startup|Liveness) probe failed: "
)
"""Failure in a list of the events of Kubernetes."""

_RAISED = re.compile(
    r"^(?:Uncaught |Unhandled |E {1,6}|[|+│┃ -]{1,8}|\"message\": \")?(?:[A-Za-z_$][\w$]{0,80}(?:\.|::|/)){0,12}"
    r"(?:[A-Za-z_]\w{0,100}(?:Error|Exception|Exit|Expired|Timeout|Failure|Failed|Fault|Quit|Interrupt|Abort|Panic|Refused|NotFound"
    r"|Violation|Mismatch|Lost|Unsupported)|Forbidden|NotFound"
    r"|(?:Assertion|Attribute|Import|Index|Key|Memory|Name|Runtime|Type|Value|(?:File|Module) ?Not ?Found) Error)"
    r"(?:\[[\w., ]{1,80}\]|\([\w., ]{1,80}\))?(?:: |:$|$)"
)


def error_weight(text: str) -> ErrorWeight | None:
    """Return the weight of a line without its prefixes; None if it does not have the form of an error."""
    return _weight(text.strip()[:LONGEST].translate(_ALIKE))


def shape_of(text: str) -> str | None:
    """Return the beginning of a line without its numbers; None if it does not have the form of an error."""
    weight = error_weight(text)
    return None if weight is None else f"{weight} {_NUMBERS.sub('#', text[:120])[:80]}"


def search_of(catalogue: SignatureCatalogue) -> LogSearch:
    """Return the search for the signatures of `catalogue`, and for lines with the form of an error."""
    return LogSearch.of(catalogue, LineForm(words.ANCHORS, shape_of))


def error_lines(scan: LogScan) -> Iterator[KeptLine]:
    """Yield the lines with the form of an error in a log that was searched with `search_of`, in their order."""
    kept = {line.line: line for line in scan.errors}
    kept |= {line.line: line for line in scan.tail if line.line not in kept and error_weight(line.text) is not None}
    for number in sorted(kept):
        yield kept[number]


@lru_cache(maxsize=2048)
def _weight(text: str) -> ErrorWeight | None:
    plain = words.METRIC.sub(" ", text)
    if words.KERNEL.match(text):
        if not words.KERNEL_FAILS.search(plain):
            return None
        return ErrorWeight.ENDS if words.LAST_WORDS.search(plain) else ErrorWeight.ERROR
    if _EVENT.match(text):
        return ErrorWeight.ERROR
    level = _level(text)
    if level == "quiet" and not (_NCCL_WARN.search(text[:HEAD]) or _RAISED.match(text) or words.RELAYED.search(text)):
        return None
    own = _own(plain, level)
    if own is None or reports_an_end(plain):
        return None if own is None else ErrorWeight.REPORT
    return ErrorWeight.VICTIM if lost_another(plain) else own


def is_exception(text: str) -> bool:
    """Return True for a line that is an exception."""
    return _RAISED.match(text.strip()[:LONGEST]) is not None


_ERRORS = (words.NAMED_ERROR, words.OF_ERRNO, words.SHELL)


def _own(plain: str, level: str) -> ErrorWeight | None:
    if level == "fatal" or is_exception(plain) or any(each.search(plain) for each in (words.LAST_WORDS, words.SIGNAL)):
        return ErrorWeight.ENDS
    if level == "error" or any(each.search(plain) for each in _ERRORS):
        return ErrorWeight.ERROR
    return ErrorWeight.FAILURE if _NCCL_WARN.search(plain[:HEAD]) or words.FAILS.search(plain) else None


def _level(text: str) -> str:
    """Return "quiet", "error" or "fatal", as the first level of a line says; "" without one."""
    head = text[:HEAD]
    found = _LEVEL.search(head)
    if (warns := words.WARNS.search(head)) and (found is None or warns.start() < found.start()):
        return "quiet"
    if found is None:
        return ""
    if letter := found["glog"]:
        return "quiet" if letter in "DIW" else "error" if letter == "E" else "fatal"
    named = found.lastgroup or ""
    return named.rstrip("23")
