"""Exceptions that are consequences of an error that the program logged before, such as a refused download. Pure."""

from __future__ import annotations

import re

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.errors.error_class import ErrorClass, error_class
from pylaunch.verdict.logs.evidence import EvidenceLine
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.scan import KeptLine
from pylaunch.verdict.logs.traceback import CUT

BEFORE = 20
"""Lines of the same process before an exception among which the error that led to it is."""

_FROM_OUTSIDE = (
    "hub-access", "hub-unreachable", "hub-rate-limit", "dns-hosts", "storage-full", "disk-error", "stale-files",
    "nofile",
)  # fmt: skip
"""Classes of errors of servers and storage, of which a program may continue with a result that it does not have."""

_LACKS = re.compile(
    r"'NoneType'|(?i:\b(?:no such file|not found|missing|could not|cannot|empty|incomplete|no local))\b"
)
"""Words of an exception about something that is not there."""

_NO_IMPORT = re.compile(r"(?i)\b(?:unable to|could not|cannot|can't|failed to) import [a-z]")
_WARNS = re.compile(r"(?<!\w)(?:WARN(?:ING)?|ERROR)\b")
NEAR = 3
"""Lines before a traceback that a log cuts off among which a warning may show its cause."""

_NAME = re.compile(r"[a-z][a-z0-9-]{4,40}")
_COMMON = {"error", "could", "cannot", "found", "missing", "file", "directory", "runtime", "value", "config", "errno"}


def led_to(facts: LogFacts, exception: EvidenceLine) -> tuple[KeptLine, ErrorClass] | None:
    """Return the error that a process logged before an exception about a thing that it lacks for it.

    Or the warning before a failed import, or right before a traceback that the log cuts off.
    """
    scan = facts.by_file[exception.file]
    unit = next((each for each in scan.exceptions if each.line <= exception.line <= each.last), None)
    first = exception.line if unit is None else unit.line
    before = [line for line in scan.tail if first - BEFORE <= line.line < first and str(line.origin) == exception.who]
    names = _names(exception.text)
    is_cut = False
    if "ImportError: cannot import name" in exception.text:
        before = [line for line in before if _NO_IMPORT.search(line.text)]
    elif is_cut := unit is not None and unit.chain[-1].type == CUT:
        near = [line for line in scan.tail if 0 < first - line.line <= NEAR and _WARNS.search(line.text)]
        before = [line for line in near if str(line.origin) == exception.who or line.origin.rank is None]
    elif unit is None or not _LACKS.search(exception.text):
        return None
    for line in before:
        found = error_class(line.text)
        is_related = "NoneType" in exception.text or not names.isdisjoint(_names(line.text))
        if found is not None and is_cut:
            return line, replace(found, confidence=Confidence.LOW)
        if found is not None and ((found.cause in _FROM_OUTSIDE and is_related) or _NO_IMPORT.search(line.text)):
            return line, found
    return None


def _names(text: str) -> set[str]:
    return set(_NAME.findall(text.lower())) - _COMMON
