"""The explanation of a failure from texts, as lines and as JSON."""

from __future__ import annotations

from pylaunch.explain.causes import causes
from pylaunch.explain.logs.judgement import EvidenceLine, LogCause
from pylaunch.explain.recognised_ends import PAGES
from pylaunch.model.cause import Certainty
from pylaunch.model.outcome import Status
from pylaunch.model.run import RunRecord
from pylaunch.terminal import console
from pylaunch.terminal.views.run_data import cause_data
from pylaunch.workflows.explain_logs import LogExplanation


def show(explained: LogExplanation, *, verbose: bool) -> None:
    """Print the verdict, its evidence and the next step; with `verbose` what else was considered."""
    verdict = explained.verdict
    if explained.record is not None and explained.record.outcome is not None:
        outcome = explained.record.outcome
        console.data(f"run {explained.record.plan.run} {outcome.status.value}: {outcome.reason}")
        for line in outcome.evidence if outcome.status is Status.REFUSED else ():
            console.data(f"  {line}")
        _show_recorded(explained.record, verbose=verbose)
    first = verdict.first
    if first is None:
        console.data(f"{_nothing(explained.record)} in {_read(explained)}")
    else:
        _show_cause(first, abstains=verdict.abstains, is_recorded=_is_recorded(explained.record, first))
        for other in verdict.causes[1:]:
            if verbose:
                console.data(f"also: {_headline(other)}")
                _show_evidence(other.evidence[:2])
        if len(verdict.causes) > 1 and not verbose:
            console.data(f"also found: {', '.join(each.cause.identifier for each in verdict.causes[1:6])} (--verbose)")
    if verbose:
        for each in verdict.rejected:
            console.data(f"rejected: {each.cause}: {each.why}")
            _show_evidence((each.evidence,))
        console.say(f"read {_read(explained)}")
    for note in explained.notes:
        console.say(f"note: {note}")
    if first is not None:
        console.say(f"hint: {first.cause.fix[0]}" if not verdict.abstains else f"hint: {first.cause.check}")


def _nothing(record: RunRecord | None) -> str:
    """Return the words for logs without a known text: a record that shows a failure or a hang is not contradicted."""
    ended = None if record is None or record.outcome is None else record.outcome.status
    has_failed = ended in (Status.FAILED, Status.REFUSED)
    has_hung = record is not None and record.last_hang is not None
    return "no text of a known cause found" if has_failed or has_hung else "no failure found"


def _show_recorded(record: RunRecord, *, verbose: bool) -> None:
    """Print the causes that the ends of all ranks and the facts of their hosts support, and a hang before the end."""
    if record.last_hang is not None:
        console.data(f"before it ended: {record.last_hang.text}")
        for line in record.last_hang.lines:
            console.data(f"  {line}")
    recorded = causes(record)
    if recorded is None:
        return
    for each in recorded.causes if verbose else recorded.causes[:1]:
        console.data(f"{each.confidence.value} by the record of all nodes: {each.identifier}: {each.reason}")
        for line in each.evidence:
            console.data(f"  {line}")
    if verbose:
        for rejected in recorded.rejected:
            console.data(f"rejected: {rejected.reason} ({rejected.why})")


def _is_recorded(record: RunRecord | None, cause: LogCause) -> bool:
    """Return True if `cause` is the text of a failure that the record names, with the confidence of all nodes."""
    recorded = None if record is None else causes(record)
    if recorded is None or not recorded.causes or recorded.causes[0].confidence is Certainty.POSSIBLE:
        return False
    first = recorded.causes[0]
    is_alike = first.named is None and first.identifier == cause.cause.identifier
    return is_alike or (first.named is not None and set(cause.ranks) == {first.named.rank})


def _show_cause(cause: LogCause, *, abstains: bool, is_recorded: bool) -> None:
    shown = f"its text: {cause.cause.identifier}: {cause.text}" if is_recorded else _headline(cause)
    console.data(("cause not shown: " if abstains else "") + shown)
    _show_evidence(cause.evidence)
    if cause.because:
        console.data(f"  decided by: {cause.because}")
    console.data(f"  to be sure: {cause.cause.sure} {cause.cause.check}")
    console.data(f"  see: pylaunch help {PAGES}{cause.cause.page}")


def _headline(cause: LogCause) -> str:
    return f"{cause.cause.identifier}: {cause.text} ({cause.confidence.value} confidence)"


def _show_evidence(lines: tuple[EvidenceLine, ...]) -> None:
    for each in lines:
        who = f"{each.who}: " if each.who else ""
        console.data(f"  {each.file}:{each.line}: {who}{each.text}")


def _read(explained: LogExplanation) -> str:
    files = f"{explained.files} log{'s' if explained.files != 1 else ''}"
    return f"{files} ({explained.lines} lines, {explained.size / 1e6:.1f} MB)"


def as_data(explained: LogExplanation) -> dict[str, object]:
    """Return the explanation as JSON data."""
    verdict = explained.verdict
    outcome = None if explained.record is None else explained.record.outcome
    recorded = None if explained.record is None else causes(explained.record)
    return {
        "run": None if explained.record is None else explained.record.plan.run,
        "reason": None if outcome is None else outcome.reason,
        "recorded_causes": [] if recorded is None else [cause_data(each) for each in recorded.causes],
        "failed": verdict.failed,
        "abstains": verdict.abstains,
        "causes": [_cause(each) for each in verdict.causes],
        "rejected": [
            {"cause": each.cause, "why": each.why, "evidence": _evidence(each.evidence)} for each in verdict.rejected
        ],
        "logs": explained.files,
        "lines": explained.lines,
        "bytes": explained.size,
        "notes": list(explained.notes),
    }


def _cause(cause: LogCause) -> dict[str, object]:
    return {
        "cause": cause.cause.id,
        "kind": cause.cause.kind,
        "title": cause.cause.title,
        "text": cause.text,
        "signature": cause.signature,
        "confidence": cause.confidence.value,
        "ranks": list(cause.ranks),
        "host": cause.host,
        "because": cause.because or None,
        "question": cause.cause.sure,
        "check": cause.cause.check,
        "fixes": list(cause.cause.fix),
        "page": f"{PAGES}{cause.cause.page}",
        "evidence": [_evidence(each) for each in cause.evidence],
    }


def _evidence(line: EvidenceLine) -> dict[str, object]:
    return {"file": line.file, "line": line.line, "who": line.who or None, "text": line.text}
