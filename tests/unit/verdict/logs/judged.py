"""Judgement of texts of logs by signatures."""

from collections.abc import Mapping, Sequence

from pylaunch.store.content import signatures
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.judgement import LogCause, judge_texts
from pylaunch.verdict.logs.scan import LogScan, LogSearch, scan

SEARCH = LogSearch.of(signatures())


def scanned(text: str, name: str = "x.log") -> LogScan:
    return scan(SEARCH, name, [text.encode()])


def cause_in(scans: Sequence[LogScan]) -> LogCause:
    """Return the first cause; there must be one."""
    first = judge_texts(signatures(), LogFacts(scans)).first
    assert first is not None
    return first


def judged(files: Mapping[str, Sequence[str]]) -> LogCause:
    """Return the first cause in files of lines."""
    return cause_in([scanned("\n".join(lines) + "\n", name) for name, lines in files.items()])
