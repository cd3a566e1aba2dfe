"""Waits of programs: logs without an error whose last lines are known to be those of a wait. Pure.

A signature of the page `waiting` is normal in passing: a healthy program prints it, too, and the next line follows. Its
order on the page is that of a start. Where ranks stand at different lines, the others wait for the earliest one.
"""

import re
from collections.abc import Sequence

from pylaunch.features.explain.judgement.error_form import ErrorWeight, error_weight
from pylaunch.features.explain.judgement.error_words import any_of
from pylaunch.features.explain.judgement.first_error import ENDS, ENDS_WELL
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import named_ranks
from pylaunch.verdict.logs.clue import Clue, default
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.judgement import WAITING
from pylaunch.verdict.logs.line import Origin
from pylaunch.verdict.logs.scan import KeptLine, LogMatch, LogScan
from pylaunch.verdict.logs.signature import Signature, SignatureCatalogue

LAST_LINES = 3
"""Last lines of a process among which the line of a wait may be: comments and other noise may follow it."""


_WARNING = re.compile(r"(?i)\bwarn|\*{10}")
"""Line that another part of the program may write while it waits."""


_RESULTS = any_of(
    "^# Avg bus bandwidth",
    "^# Out of bounds values",
    r"^ {0,12}\d{1,15} {1,12}\d{1,15} {1,12}[a-z]\w{2,10} {1,12}\w{3,4} ",
)
"""Results of nccl-tests: collectives that have ended."""


def stands_at(catalogue: SignatureCatalogue, facts: LogFacts) -> list[tuple[LogMatch, Clue]]:
    """Return the earliest line of a start at which programs stand, with what they wait for; [] for none."""
    waits = catalogue.of_page(WAITING)
    found = [each for scan in facts.scans for each in _of_log(scan, waits)]
    if not found:
        return []
    order = {each.id: at for at, each in enumerate(waits)}
    first = min(found, key=lambda each: order[each.signature.id])
    same = [each for each in found if each.signature is first.signature]
    others = len(found) - len(same)
    clue = default(first, Confidence.MEDIUM if others else Confidence.LOW)
    ranks = tuple(sorted({each.origin.rank for each in same if each.origin.rank is not None}))
    if not others or not ranks:
        return [(first, Clue(clue.cause, clue.text, clue.confidence, because=_of_end(first, facts)))]
    because = "the other ranks are further in the start"
    return [(first, Clue(clue.cause, f"{named_ranks(ranks)}: {clue.text}", clue.confidence, ranks, because=because))]


def _of_end(wait: LogMatch, facts: LogFacts) -> str:
    after = any(line.line > wait.line for line in facts.by_file[wait.file].tail)
    return "nothing after it shows progress" if after else "it is the last line of the log"


def _of_log(scan: LogScan, waits: Sequence[Signature]) -> list[LogMatch]:
    if scan.made_progress:
        return []
    last: dict[Origin, list[KeptLine]] = {}
    for line in scan.tail:
        last.setdefault(line.origin, []).append(line)
    found = [each for lines in last.values() if (each := _of_process(lines[-LAST_LINES:], waits)) is not None]
    return [each for each in found if not _continued(scan, each.line)]


def _continued(scan: LogScan, line: int) -> bool:
    """Return True if the log shows results or a good end after a line."""
    after = [each.text for each in scan.tail if each.line > line and error_weight(each.text) is None]
    return any(form.search(text) for text in after for form in (ENDS_WELL, _RESULTS, ENDS))


def _of_process(lines: Sequence[KeptLine], waits: Sequence[Signature]) -> LogMatch | None:
    """Return the last of `lines` that is that of a wait, unless a later one of the same logger shows that it ended."""
    has_ended = False
    for line in reversed(lines):
        for signature in waits:
            if found := signature.pattern.search(line.text):
                if has_ended and line.time is not None:
                    return None
                groups = {name: value for name, value in found.groupdict().items() if value is not None}
                return LogMatch(signature, line.origin, line.time, line.file, line.line, line.text, groups)
        weight = error_weight(line.text)
        if weight is not None and weight is not ErrorWeight.FAILURE:
            return None
        has_ended = has_ended or (line.time is not None and weight is None and _WARNING.search(line.text) is None)
    return None
