"""Texts that may be the cause, joined and put in order: by time or line where these can be compared. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum

from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.clue import Clue
from pylaunch.verdict.logs.facts import is_before
from pylaunch.verdict.logs.scan import LogMatch

MOST_RANKED = 40
_RANKS_OF = {Confidence.HIGH: 0, Confidence.MEDIUM: 1, Confidence.LOW: 2}


class Order(IntEnum):
    """Order of what may be the cause: the least counts first."""

    KNOWN = 0
    RAISED = 1
    KILLED = 2
    VICTIM = 3
    REPORT = 4


@dataclass(eq=False)
class Candidate:
    match: LogMatch
    reading: Clue
    order: Order
    others: list[LogMatch] = field(default_factory=list)
    """Further matches of the same cause."""


def latest(failed: Iterable[LogMatch]) -> dict[str, list[LogMatch]]:
    """Return the last failure of each signature in each log."""
    found: dict[str, dict[str, LogMatch]] = defaultdict(dict)
    for match in failed:
        known = found[match.signature.id].setdefault(match.file, match)
        if match.line > known.line:
            found[match.signature.id][match.file] = match
    return {signature: [*of_file.values()] for signature, of_file in found.items()}


def merged(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Join candidates of one cause; an exception is a cause of its own by its text."""
    found: dict[tuple[str, str], Candidate] = {}
    for each in candidates:
        key = (each.reading.cause, each.reading.text if each.match.signature.id == "exception" else "")
        if (known := found.get(key)) is None:
            found[key] = each
        else:
            known.others.append(each.match)
    return list(found.values())


def in_time(candidates: list[Candidate]) -> list[Candidate]:
    """Sort by time where times or lines can be compared, else by order and confidence."""
    left = sorted(candidates, key=lambda each: (each.order, _RANKS_OF[each.reading.confidence]))[:MOST_RANKED]
    ranked: list[Candidate] = []
    while left:
        first = next(
            (
                each
                for each in left
                if not any(is_before(other.match, each.match) for other in left if other is not each)
            ),
            left[0],
        )
        left.remove(first)
        ranked.append(first)
    return ranked
