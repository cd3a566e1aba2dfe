"""Judge the logs of a run: causes that signatures show, or the first error by its form. Pure.

1. Roots, exceptions, signals and symptoms that signatures know come first (`verdict.logs.judgement`).
2. Without an error, the last lines show where the programs stand, and what they wait for.
3. Without a known cause, the first error by its form is shown, with up to three classes that the words of the logs
   suggest (`ranker`). One with a large share is named alone, with medium confidence.
"""

from __future__ import annotations

from collections.abc import Sequence

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.features.explain.judgement.error_form import ErrorWeight
from pylaunch.features.explain.judgement.first_error import (
    ErrorLines,
    FirstError,
    first_error,
    lines_with_errors,
)
from pylaunch.features.explain.judgement.ranker import ALONE, NO_FAILURE, POSSIBLE, Suggestion, WordRanking, WordWeights
from pylaunch.features.explain.judgement.standstill import stands_at
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.text.sanitise import visible_line
from pylaunch.verdict.logs.attempts import last_attempts
from pylaunch.verdict.logs.facts import LogFacts, is_before
from pylaunch.verdict.logs.judgement import (
    ABSTAINING,
    EVIDENCE_LINES,
    LONGEST_TEXT,
    STOPPED,
    UNEXPLAINED,
    LogCause,
    RejectedText,
    TextVerdict,
    cause_of,
    judge_texts,
)
from pylaunch.verdict.logs.scan import EvidenceLine, LogScan, evidence_of
from pylaunch.verdict.logs.signature import SignatureCatalogue
from pylaunch.verdict.logs.traceback import CUT
from pylaunch.verdict.logs.uncaught import EXCEPTION

WORDS = "words"
"""Name in place of a signature for a cause that the words of the log show."""

OF_VICTIMS = ("peer-lost", "rank-absent", "nccl-waits", STOPPED)
"""Classes of processes that something outside of them ended: the words of a victim are about another one."""

OF_ENDS = (*OF_VICTIMS, UNEXPLAINED, "killed", "nccl-unexplained")
"""Classes that say of an error only how its process ended."""

AGREED = 0.2
"""Share of the words from which a cause that a signature names keeps its high confidence."""

EXCERPT = 2
"""Lines of a log that is the excerpt of one: no whole log of a program is so short."""

_NAMING = ("rank-absent", STOPPED, "killed", "native-crash", "dataloader-worker")
"""Classes of a question that a rank, or a process, answers which the logs name."""

_OF_PROCESSES = ("process-exits", "shell-end", "pool-broken", "native-abort", "check-failed")
"""Signatures that name the process that ended, or what it printed."""


@dataclass(frozen=True)
class LogVerdict:
    """Causes that the logs support, the most likely first."""

    causes: tuple[LogCause, ...]
    rejected: tuple[RejectedText, ...]
    failed: bool
    """False if the logs show no failure."""

    first_error: FirstError | None = None
    """First error by its form, where no cause is known."""

    survived: tuple[EvidenceLine, ...] = ()
    """Lines with the form of an error after which the programs continued."""

    last: EvidenceLine | None = None
    """Last line of the log, or of that one of several logs that ends first."""

    suggestions: tuple[Suggestion, ...] = ()
    """Without a cause: classes that the words of the logs suggest, the likeliest first."""

    @property
    def first(self) -> LogCause | None:
        """Verdict; None if the logs show no cause."""
        return self.causes[0] if self.causes else None

    @property
    def next(self) -> RejectedText | None:
        """The text of another cause that is the next best one, and why it is not the first; None without one."""
        first = self.first
        named = (*ABSTAINING, *(() if first is None else (first.cause.id, *(each.id for each in first.also))))
        ranked = [each.cause.id for each in self.causes]
        others = [each for each in self.rejected if each.cause not in named]
        return min(others, key=lambda each: ranked.index(each.cause) if each.cause in ranked else 99, default=None)

    @property
    def abstains(self) -> bool:
        """True if the logs show a failure but not its cause."""
        if self.first is None or self.first.cause.id not in ABSTAINING:
            return self.failed and self.first is None
        return self.failed and not (self.first.is_sole and _is_named(self.first))

    @property
    def stands(self) -> bool:
        """True if the logs show no failure, but a line at which programs wait is their last."""
        return not self.failed and self.first is not None


def judge_logs(catalogue: SignatureCatalogue, scans: Sequence[LogScan], words: WordWeights) -> LogVerdict:
    """Return the verdict on the logs of one run, which were searched with `error_form.search_of`."""
    scans = last_attempts(scans)
    facts = LogFacts(scans)
    texts = judge_texts(catalogue, facts)
    causes = texts.causes
    lines = lines_with_errors(facts, texts.roles)
    error = _floor(facts, lines, causes, texts)
    has_failed = True
    if not (texts.failed or causes or (error is not None and error.weight is not ErrorWeight.FAILURE)):
        causes = tuple(cause_of(catalogue, facts, *each) for each in stands_at(catalogue, facts))
        error = None if causes else error
        has_failed = error is not None
    survived = tuple(evidence_of(each) for each in lines.survived)
    verdict = LogVerdict(causes, texts.rejected, has_failed, error, survived, _last(scans))
    if causes and error is None and not verdict.abstains:
        return _as_sure_as_words(verdict, words, scans) if has_failed else verdict
    is_excerpt = not has_failed and sum(each.lines for each in scans) <= EXCERPT
    is_of_victim = not (error is not None and error.is_own) and (not causes or causes[0].cause.id in OF_VICTIMS)
    if is_of_victim and not is_excerpt:
        return verdict
    ranking = WordRanking(words, scans, None if error is None else error.rank)
    if is_excerpt and ranking.shares.get(NO_FAILURE, 0.0) >= POSSIBLE:
        return verdict
    return _with_suggestions(verdict, ranking.suggested({*texts.against, *OF_ENDS}), catalogue)


def _as_sure_as_words(verdict: LogVerdict, words: WordWeights, scans: Sequence[LogScan]) -> LogVerdict:
    """Return the verdict with medium confidence at most in a cause that few logs with such words have."""
    first, ranking = verdict.causes[0], WordRanking(words, scans)
    if first.confidence is not Confidence.HIGH or ranking.shares.get(first.cause.id, 0.0) >= AGREED:
        return verdict
    less_sure = (replace(first, confidence=Confidence.MEDIUM), *verdict.causes[1:])
    return replace(verdict, causes=less_sure, suggestions=ranking.suggested({first.cause.id, *OF_ENDS})[:1])


def _with_suggestions(verdict: LogVerdict, found: Sequence[Suggestion], catalogue: SignatureCatalogue) -> LogVerdict:
    """Return the verdict with the classes that the words suggest; one that is sure enough explains an own error.

    The words say what failed; who failed stays as the lines of the ranks show it.
    """
    error, who = verdict.first_error, verdict.first
    is_own = who is not None and who.cause.id == UNEXPLAINED and (who.signature == EXCEPTION or bool(who.ranks))
    if not found or found[0].share < ALONE or not (is_own or (error is not None and error.is_own)):
        known = {each.cause.id for each in verdict.causes}
        return replace(verdict, suggestions=tuple(each for each in found if each.cause not in known))
    best, cause = found[0], catalogue.causes[found[0].cause]
    because = (
        f"the words {', '.join(best.words)} in line {best.evidence.line}: {best.share:.0%} of texts with such words"
    )
    because += f", {found[1].cause} {found[1].share:.0%}" if len(found) > 1 else ""
    evidence = (() if error is None else (error.evidence,)) + (best.evidence,)
    if who is not None and is_own:
        evidence = tuple(dict.fromkeys((*who.evidence, *evidence)))[:EVIDENCE_LINES]
        named = replace(who, cause=cause, confidence=Confidence.MEDIUM, evidence=evidence, because=because)
        return replace(verdict, causes=(named, *verdict.causes[1:]), first_error=None)
    text = visible_line(evidence[0].text)[:LONGEST_TEXT]
    evidence = tuple(dict.fromkeys(evidence))
    named = LogCause(cause, WORDS, text, Confidence.MEDIUM, (), None, evidence, because)
    return replace(verdict, causes=(named, *verdict.causes), first_error=None)


def _is_named(cause: LogCause) -> bool:
    """Return True if a cause of an abstaining class names the process that ended, or a signal from outside.

    The launcher's own signal is none: it may have ended a run that hung, and what a session killed, one before.
    """
    is_signal = cause.cause.id == STOPPED and cause.signature not in ("elastic-death-signal", "own-command-kills")
    is_process = cause.signature in _OF_PROCESSES or is_signal or cause.cause.id == "dataloader-worker"
    is_placed = cause.cause.id == "native-crash" and cause.because != ""
    return cause.cause.id in _NAMING and (bool(cause.ranks) or is_process or is_placed)


def _floor(facts: LogFacts, lines: ErrorLines, causes: Sequence[LogCause], texts: TextVerdict) -> FirstError | None:
    """Return the first error, unless a cause is known, or a symptom that precedes it; wrappers only report one."""
    found = first_error(lines)
    if found is None or not causes:
        return found
    if _is_named(causes[0]):
        return None
    weakest = ErrorWeight.FAILURE if CUT in causes[0].text else ErrorWeight.ERROR
    if causes[0].cause.id not in ABSTAINING or found.weight > weakest or lines.first is None:
        return None
    if causes[0].signature != EXCEPTION and found.evidence in causes[0].evidence:
        return None  # A signature knows the line, and that it has several causes.
    if facts.ended_by_signal and facts.is_in_exception(lines.first.file, lines.first.line):
        return None  # The process survived it until a signal ended it.
    return None if any(is_before(each, lines.first) for each in texts.symptoms) else found


def _last(scans: Sequence[LogScan]) -> EvidenceLine | None:
    """Return the last line of the log that ends first, as far as times show it."""
    ends = [scan.tail[-1] for scan in scans if scan.tail]
    first = next((each for each in ends if not any(is_before(other, each) for other in ends)), None)
    return None if first is None else evidence_of(first)
