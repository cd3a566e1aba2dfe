"""Causes that differences between ranks show, and their weight for causes that other texts name. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from pylaunch.base.dataclass import replace
from pylaunch.features.explain.judgement.course import continued
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.clue import Clue
from pylaunch.verdict.logs.evidence import EVIDENCE_LENGTH, EvidenceLine
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role

STEPS = 2
"""Lines with a step, an epoch or a loss that show that training continues."""

UNREGISTERED = "jax-register-deadline"
"""Signature of ranks that gave up waiting for the others at the coordinator."""

STALL = "hvd-stall"
"""Signature of Horovod's report of ranks that wait, which may end."""

_OF_A_START = ("rank-missing", "coordinator-unreachable", "hosts-loopback", "firewall-port")
"""Causes of a start that failed which values that differ between the ranks explain."""

_ORDER = {Confidence.HIGH: 0, Confidence.MEDIUM: 1, Confidence.LOW: 2}
_MORE = {Confidence.LOW: Confidence.MEDIUM, Confidence.MEDIUM: Confidence.HIGH, Confidence.HIGH: Confidence.HIGH}


def naming(facts: LogFacts, indications: Iterable[Indication]) -> Iterator[Indication]:
    """Yield the indications that name a cause, the surest first, unless training continues and nothing failed.

    A wait names none if the programs continue after its last report, whatever fails later.
    """
    named = [each for each in indications if each.names is not None]
    has_failed, over = any(facts.failures.values()), waits_over(facts)
    for each in sorted(named, key=lambda each: _ORDER[each.names or Confidence.LOW]):
        if each.may_end and each.excerpt.file in over:
            continue
        if each.cause in ("rank-missing", "launcher-config") and facts.own_exceptions:
            continue  # A start line is weak evidence: it may be lost among others, and its values mean something else.
        stands = not each.fails and facts.steps_after(each.excerpt.file, each.excerpt.line) < STEPS
        if has_failed or stands:
            yield each


def waits_over(facts: LogFacts) -> frozenset[str]:
    """Return the logs in which the programs continue after the last report of stalled ranks."""
    last: dict[str, int] = {}
    for each in facts.of(STALL):
        last[each.file] = max(each.line, last.get(each.file, 0))
    has_failed = any(scan.exceptions for scan in facts.scans) or any(
        match.signature.role in (Role.ROOT, Role.SYMPTOM, Role.WRAPPER) and match.signature.id != STALL
        for match in facts.matches
    )
    return frozenset(file for file, line in last.items() if continued(facts.by_file[file], line, has_failed=has_failed))


def weighed(match: LogMatch, clue: Clue, indications: Iterable[Indication], over: Container[str]) -> Clue:
    """Return a clue with the confidence that the indications for its cause give it.

    A report of stalled ranks is benign in the logs of `over`, as `waits_over` returns them.
    """
    if match.signature.id == STALL and match.file in over:
        return replace(clue, role=Role.BENIGN)
    launch = next(filter(_is_of_launch, indications), None)
    if launch is not None and (
        match.signature.id == UNREGISTERED or (clue.cause in _OF_A_START and launch.cause != "rank-missing")
    ):
        return Clue(launch.cause, launch.text, launch.names or Confidence.LOW, launch.ranks, because=launch.because)
    support = [each for each in indications if each.cause == clue.cause]
    if support:
        naming_ranks = next((each for each in support if each.ranks), None)
        if naming_ranks is not None and not clue.ranks:
            clue = replace(clue, text=naming_ranks.text, ranks=naming_ranks.ranks)
        return replace(clue, confidence=_MORE[clue.confidence], because=clue.because or support[0].text)
    return clue


def _is_of_launch(indication: Indication) -> bool:
    """Return True for ranks that are missing, there twice, or started with other values than the others."""
    return indication.names is not None and indication.cause in ("rank-missing", "duplicate-launch", "launcher-config")


def indication_lines(indication: Indication) -> tuple[EvidenceLine, ...]:
    """Return the lines that show an indication."""
    first = indication.excerpt
    at = min(indication.at, len(first.lines) - 1)
    shown = [(first, at), *((other, 0) for other in indication.others)]
    return tuple(
        EvidenceLine(each.file, each.line + at, str(each.origin), each.lines[at].strip()[:EVIDENCE_LENGTH])
        for each, at in shown
    )
