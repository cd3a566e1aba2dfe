"""The explanation of a failure from texts, as lines and as JSON."""

import re
from collections.abc import Sequence

from pylaunch.features.explain.judgement.first_error import FirstError
from pylaunch.features.explain.judgement.ranker import Suggestion
from pylaunch.features.explain.judgement.verdict import LogVerdict
from pylaunch.features.explain.work import LogExplanation
from pylaunch.model.diagnosis.cause import Named
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.outcome import Status
from pylaunch.model.run import RunRecord
from pylaunch.store.content import signatures
from pylaunch.terminal import console, hints
from pylaunch.terminal.views.run_data import cause_data
from pylaunch.verdict.logs.judgement import ABSTAINING, LogCause
from pylaunch.verdict.logs.scan import EvidenceLine
from pylaunch.verdict.logs.signature import CauseClass
from pylaunch.verdict.logs.traceback import CHAINED
from pylaunch.verdict.logs.uncaught import EXCEPTION
from pylaunch.verdict.rank_end import without_rank
from pylaunch.verdict.recognised_ends import PAGES

_TYPE = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*(?:Error|Exception))\b")
"""Type of an exception at the beginning of a line."""


def show(explained: LogExplanation, *, verbose: bool) -> None:
    """Print the verdict, its evidence and the next step; with `verbose` what else was considered."""
    verdict = explained.verdict
    if explained.record is not None and explained.record.outcome is not None:
        outcome = explained.record.outcome
        console.data(f"run {explained.record.plan.run} {outcome.status.value}: {outcome.reason}")
        for line in outcome.evidence if outcome.status is Status.REFUSED else ():
            console.data(f"  {line}")
        _show_recorded(explained.record, verbose=verbose)
    elif explained.record is not None:
        console.data(f"run {explained.record.plan.run} is not known to have ended; its logs so far:")
    _show_first(explained)
    if verbose:
        for other in verdict.causes[1:] if verdict.first_error is None else verdict.causes:
            console.data(f"also: {_headline(other)}")
            _show_evidence(other.evidence[:2])
        for each in verdict.rejected:
            console.data(f"rejected: {each.cause}: {each.why}")
            _show_evidence((each.evidence,))
        console.say(f"read {_read(explained)}")
    for note in () if _has_no_ranks(explained) else explained.notes:
        console.say(f"note: {note}")
    if hint := _hint(explained):
        console.say(f"hint: {hint}")


def _show_first(explained: LogExplanation) -> None:
    """Print the first cause; without a known one the first error, or where the log ends."""
    verdict = explained.verdict
    if verdict.first_error is not None:
        _show_error(verdict.first_error, verdict, explained.named)
    elif verdict.first is None:
        if not _has_no_ranks(explained):
            _show_nothing(explained)
    elif verdict.stands:
        console.data(f"no error in {_read(explained)}; its last lines are those of a wait. If it hangs there:")
        _show_cause(verdict.first, abstains=False, is_recorded=False)
    else:
        first = verdict.first
        is_recorded = explained.named is not None or _is_alike(explained.record, first)
        is_other = _is_of_another_error(explained.record, first)
        _show_cause(first, abstains=verdict.abstains, is_recorded=is_recorded and not is_other)
        if (rejected := verdict.next) is not None and first.is_sole and not verdict.abstains:
            cause, at = signatures().causes[rejected.cause], rejected.evidence
            console.data(f"  not {cause.identifier} ({at.file}:{at.line}): {rejected.why}")
        _show_suggestions(verdict.suggestions)


def _hint(explained: LogExplanation) -> str:
    """Return the command to type next; "" for a run that ended without a failure."""
    verdict, record = explained.verdict, explained.record
    if verdict.first_error is not None:
        return verdict.first_error.check
    if verdict.first is not None:
        is_other = _is_of_another_error(record, verdict.first)
        asks = verdict.abstains or verdict.stands or is_other or not verdict.first.is_sole
        return verdict.first.cause.check if asks else verdict.first.cause.fix[0]
    if record is not None and _has_no_ranks(explained):
        hint = "" if record.outcome is None else record.outcome.hint
        return hints.completed(hint, hints.as_started(record.plan))
    if record is None:
        return "if it hangs there, read the stack of each rank on its node: py-spy dump --pid PID"
    return f"if it hangs there: pylaunch stacks {record.plan.run}" if record.outcome is None else ""


def _has_no_ranks(explained: LogExplanation) -> bool:
    """No rank was started, so there is no text to search."""
    outcome = None if explained.record is None else explained.record.outcome
    return outcome is not None and outcome.status is Status.REFUSED and not explained.size


def _show_error(error: FirstError, verdict: LogVerdict, named: Named | None) -> None:
    """Print an error whose cause no signature knows, the rank to blame, and what the words of the log suggest."""
    line, who = error.evidence, verdict.first
    by = f" ({line.who})" if line.who else ""
    its = "cause not known to pylaunch; the first error is" if named is None else "its text is not known to pylaunch"
    console.data(f"{its}: {line.text}")
    console.data(f"  {line.file}:{line.line}{by}")
    if who is not None and who.ranks and who.signature != EXCEPTION:
        console.data(f"  {who.text}")
    _show_suggestions(verdict.suggestions)
    if not verdict.suggestions:
        console.data(f"  next question: {error.question}")


def _show_suggestions(suggestions: Sequence[Suggestion]) -> None:
    if suggestions:
        console.data("  possible causes, by the words of the log:")
    for each in suggestions:
        cause = signatures().causes[each.cause]
        console.data(f"    {cause.identifier}: {cause.title} (line {each.evidence.line}: {', '.join(each.words)})")
        console.data(f"      {cause.sure} {cause.check}")


def _show_nothing(explained: LogExplanation) -> None:
    """Print that no failure was found, what was looked for, and where the log ends."""
    verdict, record = explained.verdict, explained.record
    if verdict.survived:
        count = len(verdict.survived)
        forms = "1 line has" if count == 1 else f"{count} lines have"
        found = "no error ended a program" if record is None else _nothing(record)
        console.data(f"{found} in {_read(explained)}")
        after = "the log continues after" if record is None or not _is_done(record) else "the run ended well after"
        console.data(f"  {forms} the form of an error, and {after}; the last is")
        _show_evidence(verdict.survived[-1:])
    else:
        looked_for = "no known text, no line with the form of an error (level, exception, errno, signal, exit status)"
        console.data(f"{_nothing(record)} in {_read(explained)}: {looked_for}")
    if verdict.last is not None:
        console.data(f"  the last line is {_shown(verdict.last)}")
    _show_suggestions(verdict.suggestions)


def _nothing(record: RunRecord | None) -> str:
    """Return the words for logs without a known text: a record that shows a failure or a hang is not contradicted."""
    ended = None if record is None or record.outcome is None else record.outcome.status
    has_failed = ended in (Status.FAILED, Status.REFUSED)
    has_hung = record is not None and record.last_hang is not None
    return "no text of a known cause found" if has_failed or has_hung else "no failure found"


def _is_done(record: RunRecord) -> bool:
    return record.outcome is not None and record.outcome.status is Status.DONE


def _show_recorded(record: RunRecord, *, verbose: bool) -> None:
    """Print the causes that the ends of all ranks and the facts of their hosts support, and a hang before the end."""
    if record.last_hang is not None:
        console.data(f"before it ended: {record.last_hang.text}")
        for line in record.last_hang.lines:
            console.data(f"  {line}")
    recorded = record.outcome
    if recorded is None:
        return
    for each in recorded.causes if verbose else recorded.causes[:1]:
        more = "" if each.reason == recorded.reason else f": {each.reason}"
        console.data(f"by the record of all nodes, {each.confidence.value} confidence: {each.identifier}{more}")
        for line in each.evidence:
            console.data(f"  {line}")
    if verbose:
        for rejected in recorded.rejected:
            console.data(f"rejected: {rejected.reason} ({rejected.why})")


def _is_alike(record: RunRecord | None, cause: LogCause) -> bool:
    """Return True if `cause` is the text with which all ranks failed alike, by the record."""
    first = None if record is None or record.outcome is None else next(iter(record.outcome.causes), None)
    if first is None or first.confidence is Confidence.LOW:
        return False
    return first.named is None and first.identifier == cause.cause.identifier


def _is_of_another_error(record: RunRecord | None, cause: LogCause) -> bool:
    """Return True if the rank that the record names ended with an exception, and `cause` shows only others of it.

    A program may print, or quote, exceptions that it survives.
    """
    first = None if record is None or record.outcome is None else next(iter(record.outcome.causes), None)
    if record is None or record.outcome is None or first is None or first.identifier == cause.cause.identifier:
        return False
    end = next((end for end in record.outcome.ends if first.named == Named(end.host, end.rank)), None)
    if end is None or any(without_rank(line).lstrip().startswith(CHAINED) for line in end.last_lines):
        return False  # An exception in the chain of another one is no other error.
    own = _TYPE.match(end.error)
    types = {found[1] for line in cause.evidence if (found := _TYPE.match(line.text)) is not None}
    return own is not None and bool(types) and own[1] not in types


def _show_cause(cause: LogCause, *, abstains: bool, is_recorded: bool) -> None:
    plain = f"{cause.cause.identifier}: {cause.text}"
    shown = f"its text: {plain}" if is_recorded else plain if abstains and not cause.also else _headline(cause)
    console.data(("cause not shown: " if abstains else "") + shown)
    _show_evidence(cause.evidence)
    if cause.because:
        console.data(f"  decided by: {cause.because}")
    if not cause.also:
        console.data(f"  to be sure: {cause.cause.sure} {cause.cause.check}")
    for each in (cause.cause, *cause.also) if cause.also else ():
        console.data(f"  {each.identifier}: {each.title}. {each.sure} {each.check}")
    console.data(f"  see: pylaunch help {PAGES}{cause.cause.page}")


def _headline(cause: LogCause) -> str:
    if cause.also:
        return f"several causes: {' or '.join(each.identifier for each in (cause.cause, *cause.also))}: {cause.text}"
    shown = f"{cause.cause.identifier}: {cause.text} ({cause.confidence.value} confidence)"
    return shown if cause.is_sole or cause.cause.id in ABSTAINING else f"possible: {shown}"


def _show_evidence(lines: tuple[EvidenceLine, ...]) -> None:
    for each in lines:
        console.data(f"  {_shown(each)}")


def _shown(line: EvidenceLine) -> str:
    who = f"{line.who}: " if line.who else ""
    return f"{line.file}:{line.line}: {who}{line.text}"


def _read(explained: LogExplanation) -> str:
    files = f"{explained.files} log{'s' if explained.files != 1 else ''}"
    return f"{files} ({explained.lines} lines, {explained.size / 1e6:.1f} MB)"


def as_data(explained: LogExplanation) -> dict[str, object]:
    """Return the explanation as JSON data."""
    verdict = explained.verdict
    outcome = None if explained.record is None else explained.record.outcome
    return {
        "run": None if explained.record is None else explained.record.plan.run,
        "reason": None if outcome is None else outcome.reason,
        "recorded_causes": [] if outcome is None else [cause_data(each) for each in outcome.causes],
        "failed": verdict.failed,
        "abstains": verdict.abstains,
        "stands": verdict.stands,
        "first_error": None if verdict.first_error is None else _error(verdict.first_error),
        "suggestions": [_suggestion(each) for each in verdict.suggestions],
        "causes": [_cause(each) for each in verdict.causes],
        "rejected": [
            {"cause": each.cause, "why": each.why, "evidence": _evidence(each.evidence)} for each in verdict.rejected
        ],
        "last_line": None if verdict.last is None else _evidence(verdict.last),
        "logs": explained.files,
        "notes": list(explained.notes),
    }


def _cause(cause: LogCause) -> dict[str, object]:
    return {
        **_class(cause.cause),
        "text": cause.text,
        "signature": cause.signature,
        "confidence": cause.confidence.value,
        "ranks": list(cause.ranks),
        "host": cause.host,
        "because": cause.because or None,
        "also": [each.id for each in cause.also],
        "fixes": list(cause.cause.fix),
        "page": f"{PAGES}{cause.cause.page}",
        "evidence": [_evidence(each) for each in cause.evidence],
    }


def _error(error: FirstError) -> dict[str, object]:
    return {**_evidence(error.evidence), "question": error.question, "check": error.check}


def _suggestion(found: Suggestion) -> dict[str, object]:
    own = {"share": round(found.share, 2), "words": list(found.words), "evidence": _evidence(found.evidence)}
    return _class(signatures().causes[found.cause]) | own


def _class(cause: CauseClass) -> dict[str, object]:
    return {"cause": cause.id, "kind": cause.kind, "title": cause.title, "question": cause.sure, "check": cause.check}


def _evidence(line: EvidenceLine) -> dict[str, object]:
    return {"file": line.file, "line": line.line, "who": line.who or None, "text": line.text}
