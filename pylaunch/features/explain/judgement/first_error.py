"""The first error of the earliest failing rank, by the form of its line alone: the floor under the signatures. Pure.

1. Lines after which the process made progress, or ended well, are no failure.
2. The last words of a process (an exception, a panic, a signal) precede errors by level, and these precede words of
   failure without a level.
3. Texts of victims count only where nothing else is there, and reports of ends only where no victim is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.error_form import ErrorWeight, error_lines, error_weight, is_exception
from pylaunch.features.explain.judgement.error_words import any_of
from pylaunch.model.text.argv import pylaunch, quoted
from pylaunch.verdict.logs.facts import LogFacts, is_before
from pylaunch.verdict.logs.scan import EvidenceLine, KeptLine, LogScan, evidence_of
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.traceback import continues, names_substitute

ENDS_WELL = any_of(
    r"\b(?:train(?:ing|er)?|fit|fine-?tuning|evaluation|worker group|epochs?)\b.{0,60}"
    r"\b(?:finish|completed?|done|succe)",
    r"\b(?:finished|completed) (?:training|successfully)", r"successfully saved", r"exit(?:s|ed) successfully",
    r"\bsav(?:ed|ing) (?:the )?(?:final |last |model )?(?:model|checkpoint|weights)", r"\bSUCCEEDED\b",
    r"exit(?:ed)?(?: with)? (?:exit )?(?:code|status)[:=]? 0\b", r"startup complete", r"train_runtime",
    r"total running time", r"\ball (?:ranks|workers|tasks|tests) (?:finished|done|completed|passed)", r"\b100%\|",
    ignore_case=True,
)  # fmt: skip
"""Good ends of training; a script prints others also after a failure."""

ENDS = any_of("done", "finished", "completed", "success(?:ful(?:ly)?)?", "passed", "bye", "elapsed",
               ignore_case=True, words=True)  # fmt: skip
"""Words of an end that a script prints also after a failure."""

MESSAGE = 4
"""Lines after a text of a signature that may belong to its message."""

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
    found: list[tuple[ErrorWeight, KeptLine]] = []
    for scan in facts.scans:
        alive = _Lines(facts, scan, known)
        survived += alive.survived
        found += alive.first
    weight = min((weight for weight, _ in found), default=None)
    weight = ErrorWeight.ERROR if weight is ErrorWeight.ENDS else weight
    left = [each for each in found if weight is not None and each[0] <= weight]
    first = next((each for each in left if not any(is_before(other, each[1]) for _, other in left)), None)
    weight, line = first or next(iter(left), (None, None))
    return ErrorLines(line, weight, tuple(survived))


class _Lines:
    """Errors of one log: the first one that counts, and those that the program survived."""

    def __init__(self, facts: LogFacts, scan: LogScan, known: Mapping[tuple[str, int], Role]) -> None:
        self._facts, self._scan, self._known = facts, scan, known
        reports = (Role.SYMPTOM, Role.WRAPPER)
        self._reports = sorted(line for (file, line), role in known.items() if file == scan.file and role in reports)
        every = [line for line in error_lines(scan) if not self._is_code(line)]
        forms = [(weight, line) for line in every if (weight := error_weight(line.text)) is not None]
        plain = [line for line in scan.tail if error_weight(line.text) is None and not self._is_code(line)]
        self._last_plain = plain[-1].line if plain and plain[-1] is scan.tail[-1] else 0
        self._good = max((line.line for line in plain if ENDS_WELL.search(line.text)), default=0)
        self._end = max((line.line for line in plain if ENDS.search(line.text)), default=0)
        over = {line.line for weight, line in forms if self._is_survived(line, weight)}
        self.survived = [line for _, line in forms if line.line in over]
        alive = [(self._weight(line, weight), line) for weight, line in forms if line.line not in over]
        own = min(alive, key=lambda each: each[0], default=None)
        if own is not None and own[0] is ErrorWeight.FAILURE and scan.lines - own[1].line > NEAR_END:
            self.survived.append(own[1])
            others = [each for each in alive if each[0] >= ErrorWeight.VICTIM]
            own = min(others, key=lambda each: each[0], default=None)
        self.first = [] if own is None else [own]

    def _weight(self, line: KeptLine, weight: ErrorWeight) -> ErrorWeight:
        """Return the weight of a line; one that a signature knows as a symptom, with its message, is a victim's.

        An exception after a report is no part of the report.
        """
        at = self._reports[bisect_right(self._reports, line.line) - 1] if self._reports else line.line + 1
        if not 0 <= line.line - at <= MESSAGE:
            return weight
        is_report = self._known[line.file, at] is Role.WRAPPER
        if is_report and at < line.line and is_exception(line.text):
            return weight
        return max(weight, ErrorWeight.REPORT if is_report else ErrorWeight.VICTIM)

    def _is_code(self, line: KeptLine) -> bool:
        """Return True for a line of a source in a traceback."""
        return self._facts.is_in_exception(line.file, line.line) and not is_exception(line.text)

    def _is_survived(self, line: KeptLine, weight: ErrorWeight) -> bool:
        facts, role = self._facts, self._known.get((line.file, line.line))
        if role is Role.BENIGN or (role is Role.WARNING and weight is ErrorWeight.FAILURE):
            return True
        if not facts.is_fatal(line.file, line.line) or facts.is_handled(line.file, line.line):
            return True
        if facts.is_survived(line.file, line.line, line.origin):
            return True
        if weight is ErrorWeight.ENDS:
            in_traceback = facts.is_in_exception(line.file, line.line)
            return is_exception(line.text) and not in_traceback and self._progress_after(line) > 1
        is_followed = line.line < self._last_plain or names_substitute(line.text)
        if weight >= ErrorWeight.FAILURE and is_followed and continues(line.text):
            return True
        ended_well = max(self._good, self._end) if weight is ErrorWeight.FAILURE else self._good
        return ended_well > line.line or self._progress_after(line) > 0

    def _progress_after(self, line: KeptLine) -> int:
        progress = self._scan.progress
        own = progress.get(line.origin)
        if own is None and line.origin.rank is None:
            own = [number for each in progress.values() for number in each]
        return sum(number > line.line for number in own or ())
