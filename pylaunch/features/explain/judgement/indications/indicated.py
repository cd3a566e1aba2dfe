"""Causes that differences between ranks show, and their weight for causes that other texts name. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from pylaunch.base.dataclass import replace
from pylaunch.features.explain.judgement.course import continued
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.evidence import EVIDENCE_LENGTH, EvidenceLine
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.readings.clue import Clue
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.victims.launcher_exits import LIMIT

STEPS = 2
"""Lines with a step, an epoch or a loss that show that training continues."""

UNREGISTERED = "jax-register-deadline"
"""Signature of ranks that gave up waiting for the others at the coordinator."""

STALL = "hvd-stall"
"""Signature of Horovod's report of ranks that wait, which may end."""

_OF_A_START = ("rank-missing", "coordinator-unreachable", "hosts-loopback", "firewall-port")
"""Causes of a start that failed which values that differ between the ranks explain."""

_STOPS = ("stopped-from-outside", "scheduler-stop")
_ORDER = {Confidence.HIGH: 0, Confidence.MEDIUM: 1, Confidence.LOW: 2}
_MORE = {Confidence.LOW: Confidence.MEDIUM, Confidence.MEDIUM: Confidence.HIGH, Confidence.HIGH: Confidence.HIGH}


def naming(facts: LogFacts, indications: Iterable[Indication]) -> Iterator[Indication]:
    """Yield the indications that name a cause, the surest first, unless training continues and nothing failed.

    A wait names none if the programs continue after its last report, whatever fails later.
    """
    named = [each for each in indications if each.names is not None]
    has_failed, over = any(facts.failures.values()), waits_over(facts)
    for each in sorted(named, key=lambda each: _ORDER[each.names or Confidence.LOW]):
        if (each.may_end and each.excerpt.file in over) or (each.of_victims and not _is_behind(each, facts)):
            continue
        if each.cause in ("rank-missing", "launcher-config") and facts.own_exceptions:
            continue  # A start line is weak evidence: it may be lost among others, and its values mean something else.
        stands = not each.fails and facts.steps_after(each.excerpt.file, each.excerpt.line) < STEPS
        if has_failed or stands:
            yield each


def _is_behind(indication: Indication, facts: LogFacts) -> bool:
    """Return True if nothing but victims failed, and no other rank is behind them: one that ended or stood alone."""
    ends = facts.ends
    has_ended = ends.first is not None and ends.first.rank not in ends.victims and ends.first.code not in (0, 1, -6)
    alone = ends.silent if len(ends.silent) == 1 and ends.silent[0] in ends.last else ()
    return facts.are_victims and not has_ended and alone in ((), indication.ranks)


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
    stall = next((each for each in indications if each.stalls), None)
    if (
        stall is not None
        and clue.cause in _STOPS
        and not clue.ranks
        and (not stall.is_beside or match.signature.id == LIMIT)
    ):
        return Clue(stall.cause, stall.text, Confidence.MEDIUM, stall.ranks, Role.ROOT, stall.because)
    support = [each for each in indications if each.cause == clue.cause and not each.stalls]
    if support:
        naming_ranks = next((each for each in support if each.ranks or each.is_beside), None)
        if naming_ranks is not None and not clue.ranks:
            clue = replace(clue, text=naming_ranks.text, ranks=naming_ranks.ranks)
        is_surer = any(not each.is_beside for each in support)
        confidence = _MORE[clue.confidence] if is_surer else clue.confidence
        because = clue.because or (support[0].text if is_surer else "")
        return replace(clue, confidence=confidence, because=because)
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
