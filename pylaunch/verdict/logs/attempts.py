"""Attempts of a run in one log: after a restart of all ranks, only what the last attempt shows counts. Pure.

Nothing of a log counts whose end is that of a launcher that reports success.
"""

import re
from collections.abc import Sequence

from pylaunch.base.dataclass import replace
from pylaunch.verdict.logs.scan import LogScan
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.victims.rank_ends import ENDED

_FAILURES = (Role.ROOT, Role.SYMPTOM, Role.WRAPPER)
RESTART = "worker-restart"
"""Signature of a launcher that starts its ranks again."""


def last_attempts(scans: Sequence[LogScan]) -> list[LogScan]:
    """Return the logs without the failures of earlier attempts, if the last one has a failure of its own or none."""
    return [_last_attempt(scan) for scan in scans]


_GOOD_END = re.compile(
    r"(?i)(?:[\w -]{0,40}\b(?:job|run|training|final|honcho|supervisor|launcher|wrapper|pipeline)\b[^\d]{0,40})?"
    r"\b(?:rc|exit|exit(?:ed)? (?:code|status)) ?[:=]? ?0$"
    r"|.{0,80}\b(?:success|succeeded|successful) (?:on|in|at|after) (?:try|attempt|retry) \d{1,6}$"
)
"""Report at the end of a log that all went well; not of one rank, one task or one host."""

_RETRIES = re.compile(r"(?i)\bwill be (?:retried|restarted)\b")


def _ends_well(scan: LogScan) -> bool:
    """Return True if a log ends with success, and after its last failure with words of ranks that ended in order.

    Success alone is that of `tee` if the program was piped into it.
    """
    if not scan.tail or _GOOD_END.match(scan.tail[-1].text) is None:
        return False
    last = max((match.line for match in scan.matches if match.signature.role in _FAILURES), default=0)
    last = max((last, *(unit.last for unit in scan.exceptions)))
    after = [line.text for line in scan.tail[:-1] if line.line > last]
    return any(ENDED.search(text) or _RETRIES.search(text) for text in after)


def _last_attempt(scan: LogScan) -> LogScan:
    if _ends_well(scan):
        context = [match for match in scan.matches if match.signature.role is Role.CONTEXT]
        return replace(scan, matches=context, exceptions=[], errors=[], tail=scan.tail[-1:])
    restarts = (match for match in scan.matches if match.signature.id == RESTART)
    # The line of one rank among several is about a call that this rank tries again.
    since = max((match.line for match in restarts if match.origin.rank == scan.origin.rank), default=0)
    later = [match for match in scan.matches if match.line > since]
    units = [unit for unit in scan.exceptions if unit.line > since]
    goes_on = any(numbers[-1] > since for numbers in scan.progress.values())
    victims = [match for match in later if match.signature.role in (Role.SYMPTOM, Role.WRAPPER)]
    forms = {match.signature.pattern for match in victims}
    own = [unit for unit in units if not any(form.search(raised.text) for raised in unit.chain for form in forms)]
    roots = {match.line for match in later if match.signature.role is Role.ROOT} - {match.line for match in victims}
    if not since or not (own or roots or (goes_on and not victims)):
        return scan  # The log ends before the last attempt does, or its ranks are victims alone: the cause is older.
    errors = [line for line in scan.errors if line.line > since]
    tail = [line for line in scan.tail if line.line > since]
    return replace(scan, matches=later, exceptions=units, errors=errors, tail=tail)
