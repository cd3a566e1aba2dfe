"""The first error of the earliest failing rank, by the form of its line alone: the floor under the signatures. Pure.

1. Lines after which the process made progress, or ended well, are no failure.
2. The last words of a process (an exception, a panic, a signal) precede errors by level, and these precede words of
   failure without a level. An error right before them belongs to them and is the first.
3. Texts of victims count only where nothing else is there, and reports of ends only where no victim is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.course import ENDS, ENDS_WELL
from pylaunch.features.explain.judgement.error_form import ErrorWeight, error_weight, is_exception
from pylaunch.features.explain.judgement.topics import ERRORS, LAST_ERRORS
from pylaunch.model.text.argv import pylaunch, quoted
from pylaunch.verdict.logs.facts import FOLLOWED_LINES, NEAR_LINES, LogFacts, is_before
from pylaunch.verdict.logs.scan import EvidenceLine, KeptLine, LogScan, evidence_of
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.traceback import continues, names_substitute

ADJACENT = 3
"""Lines between an error and the last words of the process to which it belongs."""

MESSAGE = 4
"""Lines after a text of a signature that may belong to its message."""

SERIES = 40
"""Errors that are further apart do not belong together."""

NEAR_END = 15
"""Words of failure without a level count this many lines before the end of a log."""


AROUND = 20
"""Lines before an error that its command prints."""

_OF_A_VICTIM = "Another process was gone before: which rank ended first, and what is the first error in its log?"
_OF_A_REPORT = "The line reports an end: what is the first error in the log of the process that ended?"
_OF_A_PROGRAM = "Which program or library printed it, in which version, and what did it do right before?"


@dataclass(frozen=True)
class FirstError:
    """First error of a log whose cause no signature knows."""

    evidence: EvidenceLine
    weight: ErrorWeight
    rank: int | None = None
    """Rank that wrote it, if the log shows it."""

    run: str = ""
    """Run whose logs hold it; "" for a file that is here."""

    @property
    def is_own(self) -> bool:
        """True unless it is the text of a victim or a report of an end."""
        return self.weight < ErrorWeight.VICTIM

    @property
    def question(self) -> str:
        """Return what leads from the line to its cause."""
        if self.weight is ErrorWeight.VICTIM:
            return _OF_A_VICTIM
        return _OF_A_REPORT if self.weight is ErrorWeight.REPORT else _OF_A_PROGRAM

    @property
    def check(self) -> str:
        """Return the command that answers the question."""
        if self.run:
            return pylaunch("logs", self.run, *(() if self.rank is None else ("--rank", str(self.rank))))
        if not self.is_own:
            return "pylaunch explain with the logs of all ranks"
        file = "LOG" if self.evidence.file == "stdin" else quoted((self.evidence.file,))
        return f"sed -n '{max(1, self.evidence.line - AROUND)},{self.evidence.line + 5}p' {file}"


@dataclass(frozen=True)
class ErrorLines:
    """Lines of the logs that have the form of an error."""

    first: KeptLine | None
    """First error that ended a process; None if none did."""

    weight: ErrorWeight | None
    survived: tuple[KeptLine, ...]
    """Lines after which the program continued."""


def first_error(lines: ErrorLines) -> FirstError | None:
    """Return the first error; None if no error ended a process."""
    if lines.first is None or lines.weight is None:
        return None
    return FirstError(evidence_of(lines.first), lines.weight, lines.first.origin.rank)


def lines_with_errors(facts: LogFacts, known: Mapping[tuple[str, int], Role]) -> ErrorLines:
    """Return the lines with the form of an error; `known` has the roles of the lines that signatures know."""
    survived: list[KeptLine] = []
    found: list[tuple[KeptLine, ErrorWeight]] = []
    for scan in facts.scans:
        alive = _Lines(facts, scan, known)
        survived += alive.survived
        found += alive.first
    chosen = _earliest(found)
    line, weight = chosen or (None, None)
    return ErrorLines(line, weight, tuple(survived))


def _earliest(found: Sequence[tuple[KeptLine, ErrorWeight]]) -> tuple[KeptLine, ErrorWeight] | None:
    """Return the error of a process of its own that no other one precedes; else that of a victim, else a report."""
    if not found:
        return None
    own = [each for each in found if each[1] < ErrorWeight.VICTIM]
    least = min(weight for _, weight in found)
    left = [each for each in own if each[1] < ErrorWeight.FAILURE] or own
    left = left or [each for each in found if each[1] == least]
    at = [(line.time, line.file, line.line) for line, _ in left]
    for index, each in enumerate(left):
        if not any(is_before(at[other], at[index]) for other in range(len(left)) if other != index):
            return each
    return left[0]


class _Lines:
    """Errors of one log: the first one that counts, and those that the program survived."""

    def __init__(self, facts: LogFacts, scan: LogScan, known: Mapping[tuple[str, int], Role]) -> None:
        self._facts, self._scan = facts, scan
        self._symptoms = sorted(
            line for (file, line), role in known.items() if file == scan.file and role in (Role.SYMPTOM, Role.WRAPPER)
        )
        self._known = known
        kept = {line.line: line for topic in (ERRORS, LAST_ERRORS) for line in scan.kept.get(topic, ())}
        every = (kept[number] for number in sorted(kept))
        forms = [(line, weight) for line in every if (weight := error_weight(line.text)) is not None]
        plain = [line for line in scan.tail if error_weight(line.text) is None and not self._is_code(line)]
        self._last_plain = plain[-1].line if plain and plain[-1] is scan.tail[-1] else 0
        self._good = max((line.line for line in plain if ENDS_WELL.search(line.text)), default=0)
        self._end = max((line.line for line in plain if ENDS.search(line.text)), default=0)
        self._numbers = sorted({*(line.line for line, _ in forms), *facts.failures.get(scan.file, [])})
        self._reach = _reaches(self._numbers)
        self.survived: list[KeptLine] = []
        alive: list[tuple[KeptLine, ErrorWeight]] = []
        for line, weight in forms:
            if self._is_survived(line, weight):
                self.survived.append(line)
            else:
                alive.append((line, self._weight(line, weight)))
        own = _first_of([each for each in alive if not self._is_code(each[0])])
        if own is not None and own[1] is ErrorWeight.FAILURE and scan.lines - own[0].line > NEAR_END:
            self.survived.append(own[0])
            own = _first_of([each for each in alive if each[1] >= ErrorWeight.VICTIM])
        self.first = [] if own is None else [own]

    def _weight(self, line: KeptLine, weight: ErrorWeight) -> ErrorWeight:
        """Return the weight of a line; one that a signature knows as a symptom, with its message, is a victim's.

        An exception after a report is no part of the report.
        """
        at = bisect_right(self._symptoms, line.line) - 1
        if at >= 0 and line.line - self._symptoms[at] <= MESSAGE:
            is_report = self._known[line.file, self._symptoms[at]] is Role.WRAPPER
            if is_report and self._symptoms[at] < line.line and is_exception(line.text):
                return weight
            return max(weight, ErrorWeight.REPORT if is_report else ErrorWeight.VICTIM)
        return weight

    def _is_code(self, line: KeptLine) -> bool:
        """Return True for a line of a source in a traceback."""
        return self._facts.is_in_exception(line.file, line.line) and not is_exception(line.text)

    def _is_survived(self, line: KeptLine, weight: ErrorWeight) -> bool:
        role = self._known.get((line.file, line.line))
        if role is Role.BENIGN or (role is Role.WARNING and weight is ErrorWeight.FAILURE):
            return True
        reach = self._reach[self._numbers[bisect_right(self._numbers, line.line) - 1]]
        if self._scan.lines - line.line > NEAR_LINES and self._scan.lines - reach > FOLLOWED_LINES:
            return True
        facts = self._facts
        if facts.is_handled(line.file, line.line) or facts.is_survived(line.file, line.line, line.origin):
            return True
        if weight is ErrorWeight.ENDS:
            in_traceback = self._facts.is_in_exception(line.file, line.line)
            return is_exception(line.text) and not in_traceback and self._progress_after(line) >= 2
        is_followed = line.line < self._last_plain or names_substitute(line.text)
        if weight is ErrorWeight.FAILURE and is_followed and continues(line.text):
            return True
        ended_well = max(self._good, self._end) if weight is ErrorWeight.FAILURE else self._good
        return ended_well > line.line or self._progress_after(line) > 0

    def _progress_after(self, line: KeptLine) -> int:
        progress = self._scan.progress
        own = progress.get(line.origin)
        if own is None:
            own = [] if line.origin.rank is not None else [number for each in progress.values() for number in each]
        return sum(1 for number in own if number > line.line)


def _reaches(numbers: Sequence[int]) -> dict[int, int]:
    """Return the last line of the series of errors, without a gap, to which each one belongs."""
    found: dict[int, int] = {}
    for at in range(len(numbers) - 1, -1, -1):
        after = numbers[at + 1] if at + 1 < len(numbers) else None
        is_joined = after is not None and after - numbers[at] <= FOLLOWED_LINES
        found[numbers[at]] = found[after] if after is not None and is_joined else numbers[at]
    return found


def _first_of(lines: Sequence[tuple[KeptLine, ErrorWeight]]) -> tuple[KeptLine, ErrorWeight] | None:
    """Return the first error among the lines of one log that count."""
    ends = [at for at, (_, weight) in enumerate(lines) if weight is ErrorWeight.ENDS]
    errors = [at for at, (_, weight) in enumerate(lines) if weight is ErrorWeight.ERROR]
    if ends:
        return lines[ends[0] if is_exception(lines[ends[0]][0].text) else _adjacent(lines, ends[0])]
    if errors:
        return lines[_series(lines, errors)]
    for wanted in (ErrorWeight.FAILURE, ErrorWeight.VICTIM, ErrorWeight.REPORT):
        if found := [at for at, (_, weight) in enumerate(lines) if weight is wanted]:
            return lines[_series(lines, found) if wanted is ErrorWeight.FAILURE else found[0]]
    return None


def _adjacent(lines: Sequence[tuple[KeptLine, ErrorWeight]], at: int) -> int:
    """Return the first of the errors that are right before a line."""
    while at > 0 and lines[at - 1][1] <= ErrorWeight.ERROR and lines[at][0].line - lines[at - 1][0].line <= ADJACENT:
        at -= 1
    return at


def _series(lines: Sequence[tuple[KeptLine, ErrorWeight]], errors: Sequence[int]) -> int:
    """Return the first error of the last series of errors."""
    first = errors[-1]
    for at in reversed(errors[:-1]):
        if lines[first][0].line - lines[at][0].line > SERIES:
            break
        first = at
    return first
