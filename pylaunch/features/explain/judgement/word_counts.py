"""Words of logs, as the classifier counts them: those of the last lines, and twice those of errors. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from pylaunch.features.explain.judgement.errors.error_form import error_form
from pylaunch.features.explain.judgement.topics import ERRORS, LAST_ERRORS
from pylaunch.verdict.logs.scan import KeptLine, LogScan

MOST_LINES = 400
"""Lines that are counted, of all logs together; lines that differ in numbers only are one."""

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_INSIDE = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[a-z]{2,30}|0")


def word_counts(scans: Iterable[LogScan]) -> Counter[str]:
    """Return how often each word is in the lines; `HTTPServerError_2` is http, server, error, 0."""
    lines: dict[str, int] = {}
    for line in _lines(scans):
        text = _NUMBER.sub("0", line.text)
        if text not in lines:
            if len(lines) == MOST_LINES:
                break
            lines[text] = 1 if error_form(line.text) is None else 2
    counts: Counter[str] = Counter()
    for text, times in lines.items():
        for word in _WORD.findall(_INSIDE.sub(" ", text).lower()):
            counts[word] += times
    return counts


def _lines(scans: Iterable[LogScan]) -> Iterator[KeptLine]:
    """Yield the lines with errors of all logs, then their last lines from the end."""
    scans = list(scans)
    for each in scans:
        for topic in (ERRORS, LAST_ERRORS):
            yield from each.kept.get(topic, ())
    for each in scans:
        yield from reversed(each.tail)
