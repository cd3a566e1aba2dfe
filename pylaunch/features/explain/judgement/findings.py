"""Causes that no single text shows: comparisons of the ranks in the logs, and their weight for other causes. Pure.

A comparison is a module with FORMS and `read`, named in READERS here. The judgement ranks findings after roots that a
signature knows, and before exceptions and errors that none knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.features.explain.judgement import announcements, collectives
from pylaunch.features.explain.judgement.course import continued
from pylaunch.features.explain.judgement.indication import Excerpts, Indication, LogExcerpt, LogForm
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.clue import Clue
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.scan import EVIDENCE_LENGTH, EvidenceLine, LogMatch, LogScan
from pylaunch.verdict.logs.signature import Role

FORMS: tuple[LogForm, ...] = (*collectives.FORMS, *announcements.FORMS)
READERS: tuple[Callable[[Excerpts], Iterable[Indication]], ...] = (announcements.read, collectives.read)


def indications_in(scans: Sequence[LogScan]) -> list[Indication]:
    """Return the indications of all readers, each once."""
    excerpts = {form.id: [each for scan in scans for each in _excerpts(scan, form)] for form in FORMS}
    found: dict[tuple[str, str], Indication] = {}
    for each in itertools.chain.from_iterable(reader(excerpts) for reader in READERS):
        found.setdefault((each.cause, each.text), each)
    return list(found.values())


def _excerpts(scan: LogScan, form: LogForm) -> Iterator[LogExcerpt]:
    for kept in scan.kept.get(form.id, ()):
        if matched := form.pattern.search(kept.text):
            groups = {group: value for group, value in matched.groupdict().items() if value is not None}
            yield LogExcerpt(kept.origin, kept.time, kept.file, kept.line, (kept.text, *kept.following), groups)


@dataclass(frozen=True)
class LogFinding:
    """Cause that several lines show together."""

    id: str
    """Name of the rule, as a verdict prints it in place of a signature."""

    clue: Clue
    """Class of the cause, its text, confidence, and the ranks that it names."""

    evidence: tuple[EvidenceLine, ...]
    """Lines that show it; at least one."""


MOST_INDICATED = 3
"""Causes that comparisons name at most."""


def findings_of(facts: LogFacts, indications: Sequence[Indication]) -> list[LogFinding]:
    """Return the causes that comparisons name, each once."""
    found: dict[str, LogFinding] = {}
    for each in naming(facts, indications):
        clue = Clue(each.cause, each.text, each.names or Confidence.LOW, each.ranks, because=each.because)
        found.setdefault(each.cause, LogFinding("comparison", clue, indication_lines(each)))
    return list(found.values())[:MOST_INDICATED]


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
