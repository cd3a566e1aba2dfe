"""Verdicts of `explain` on texts of logs."""

from pylaunch.features.explain.judgement.error_form import search_of
from pylaunch.features.explain.judgement.ranker import weights
from pylaunch.features.explain.judgement.verdict import LogVerdict, judge_logs
from pylaunch.store.content import signatures
from pylaunch.verdict.logs.judgement import LogCause
from pylaunch.verdict.logs.line import Origin
from pylaunch.verdict.logs.scan import LogScan, scan

SEARCH = search_of(signatures())
WORDS = weights()


def scanned(log: str | bytes, name: str = "x.log", origin: Origin | None = None) -> LogScan:
    return scan(SEARCH, name, [log.encode() if isinstance(log, str) else log], origin)


def verdict_of(scans: list[LogScan]) -> LogVerdict:
    return judge_logs(signatures(), scans, WORDS)


def verdict_on(*logs: str | bytes) -> LogVerdict:
    return verdict_of([scanned(log, f"x{number}.log") for number, log in enumerate(logs)])


def first_cause(log: str | bytes) -> LogCause:
    """Return the cause that is named first; there must be one."""
    found = verdict_on(log).first
    assert found is not None
    return found


def named_in(log: str | bytes) -> str:
    """Return the classes of the first verdict, the one that is named first before those that its text admits, too."""
    first = verdict_on(log).first
    return "" if first is None else " ".join(each.id for each in (first.cause, *first.also))
