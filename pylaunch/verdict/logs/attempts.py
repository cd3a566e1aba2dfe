"""Attempts of a run in one log: after a restart of all ranks, only what the last attempt shows counts. Pure.

Nothing of a log counts whose end is that of a launcher that reports success.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pylaunch.base.dataclass import replace
from pylaunch.verdict.logs.facts import reach_of_all
from pylaunch.verdict.logs.scan import LogScan
from pylaunch.verdict.logs.signature import Role

_FAILED = ("elastic-exitcode", "elastic-sigkill", "elastic-sigsegv", "elastic-sigabrt", "elastic-sigbus")
_AGENT = re.compile(r" (?P<pid>\d{1,9}) torch/distributed/elastic/.{0,80} failed \(exitcode: ")
_MET = ("gloo-fullmesh", "gloo-connect-refused")
"""Roots that ranks print, too, when they meet addresses of an earlier attempt."""

_FAILED_ALL = ("elastic-childfailed", "ds-returncode", "slurm-task-exit", "mpi-abort")
"""Reports of launchers that a run failed."""

RESTART = "worker-restart"
"""Signature of a launcher that starts its ranks again."""


def last_attempts(scans: Sequence[LogScan]) -> list[LogScan]:
    """Return the logs without the failures of earlier attempts, if the last one has a failure of its own or none."""
    return [_last_attempt(scan) for scan in scans]


_GOOD_END = re.compile(r"(?i)(?:^|[\s,;(])(?:rc|exit(?:ed)?(?: with)?(?: code| status)?|status) ?[:=]? ?0\b")
"""Report of a launcher at the end of a log that all went well."""


def _last_attempt(scan: LogScan) -> LogScan:
    reports = [match for match in scan.matches if match.signature.id in _FAILED_ALL]
    is_older = not reports or max(match.line for match in reports) < reach_of_all(scan)
    if scan.tail and _GOOD_END.search(scan.tail[-1].text) and is_older:
        context = [match for match in scan.matches if match.signature.role is Role.CONTEXT]
        return replace(scan, matches=context, exceptions=[], kept={})
    since = max((match.line for match in scan.matches if match.signature.id == RESTART), default=0)
    by_agent: dict[str, list[int]] = {}
    for match in scan.matches:
        if match.signature.id in _FAILED and (found := _AGENT.search(match.text)):
            by_agent.setdefault(found["pid"], []).append(match.line)
    since = max([since, *(lines[-2] for lines in by_agent.values() if lines[-2:-1] and lines[-2] != lines[-1])])
    if not since:
        return scan
    later = [match for match in scan.matches if match.line > since]
    units = [unit for unit in scan.exceptions if unit.line > since]
    roots = {match.line for match in later if match.signature.role is Role.ROOT}
    victims = [
        match for match in later if match.signature.role in (Role.SYMPTOM, Role.WRAPPER) or match.signature.id in _MET
    ]
    forms = {match.signature.id: match.signature.pattern for match in victims}.values()
    own = [unit for unit in units if not any(form.search(raised.text) for raised in unit.chain for form in forms)]
    if victims and not own and roots <= {match.line for match in victims}:
        return scan  # The ranks of the last attempt are victims: the cause is older.
    kept = {topic: [line for line in lines if line.line > since] for topic, lines in scan.kept.items()}
    before = [match for match in scan.matches if match.line <= since and match.signature.role is Role.CONTEXT]
    return replace(scan, matches=[*before, *later], exceptions=units, kept=kept)
