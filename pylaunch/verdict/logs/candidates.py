"""Texts that may be the cause, joined and put in order: by time or line where these can be compared. Pure."""

from collections.abc import Iterable
from enum import IntEnum

from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.clue import Clue
from pylaunch.verdict.logs.facts import is_before
from pylaunch.verdict.logs.line import LogTime
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


def position(match: LogMatch) -> tuple[LogTime | None, str, int]:
    return match.time, match.file, match.line


def latest(failed: Iterable[Candidate]) -> dict[str, list[LogMatch]]:
    """Return the failures by signature: of those that can be compared, in one log or one zone, only the latest."""
    found: dict[tuple[str, str, str | None], list[LogMatch]] = {}
    for candidate in failed:
        match = candidate.match
        zone, seconds = (None, 0.0) if match.time is None else (match.time.zone, match.time.seconds)
        known = found.setdefault((match.signature.id, match.file, zone), [match, match])
        if (seconds, match.line) > (known[0].time.seconds if known[0].time else 0.0, known[0].line):
            known[0] = match
        if match.line > known[1].line:
            known[1] = match
    by_signature: dict[str, list[LogMatch]] = {}
    for (signature, _, _), matches in found.items():
        by_signature.setdefault(signature, []).extend(matches)
    return by_signature


def merged(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Join candidates of one cause; an exception is a cause of its own by its text."""
    found: dict[tuple[str, str], Candidate] = {}
    for each in candidates:
        key = (each.reading.cause, each.reading.text if each.match.signature.id == "exception" else "")
        if (known := found.get(key)) is None:
            found[key] = each
        else:
            known.others.append(each.match)
            if (
                _RANKS_OF[each.reading.confidence] < _RANKS_OF[known.reading.confidence]
                and each.match.file == known.match.file
            ):
                known.others.append(known.match)
                known.match, known.reading = each.match, each.reading
    return list(found.values())


def in_time(candidates: list[Candidate]) -> list[Candidate]:
    """Sort by time where times or lines can be compared, else by order and confidence."""
    left = sorted(candidates, key=lambda each: (each.order, _RANKS_OF[each.reading.confidence]))[:MOST_RANKED]
    at = {each: _first(each) for each in left}
    ranked: list[Candidate] = []
    while left:
        first = next(
            (each for each in left if not any(is_before(at[other], at[each]) for other in left if other is not each)),
            left[0],
        )
        left.remove(first)
        ranked.append(first)
    return ranked


def _first(candidate: Candidate) -> tuple[LogTime | None, str, int]:
    """Return the earliest match of a candidate."""
    match = candidate.match
    for other in candidate.others:
        if is_before(position(other), position(match)):
            match = other
    return position(match)
