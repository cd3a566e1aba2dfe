"""Rank the causes whose texts signatures know: roots before symptoms, the earliest first, or nobody. Pure.

One ordered decision (`Order`); within one of its steps the earliest text is first, where times or lines show it:

1. A root that a signature knows, where its log ends after it or fails soon after; a program that continued survived it.
   A warning, where a failure that it can explain follows, or where the log ends with it.
2. An exception that no signature explains: it ended its process, and its cause is asked of the words of the log.
3. A kill or a crash: a fact whose reason is elsewhere.
4. Victims, read across all ranks: the rank that is silent, behind or different, or nobody.
5. Reports of an end alone (exit codes, wrappers): no cause; the verdict abstains and asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import named_ranks
from pylaunch.model.text.sanitise import visible_line
from pylaunch.verdict.logs.candidates import Candidate, Order, in_time, latest, merged
from pylaunch.verdict.logs.clue import Clue, default
from pylaunch.verdict.logs.facts import LogFacts, is_before
from pylaunch.verdict.logs.readings import EXITS, read
from pylaunch.verdict.logs.scan import EvidenceLine, LogMatch, LogScan, evidence_of
from pylaunch.verdict.logs.signature import CauseClass, Role, SignatureCatalogue
from pylaunch.verdict.logs.traceback import ExceptionUnit
from pylaunch.verdict.logs.uncaught import exception_match
from pylaunch.verdict.logs.victims.silent import read_silent, with_rank
from pylaunch.verdict.logs.victims.timeouts import TIMEOUTS
from pylaunch.verdict.logs.victims.waiting import read_waiting

HEAD = 120
"""Beginning of a line, where its level is."""

EVIDENCE_LINES = 6
LONGEST_TEXT = 600
LAST_LINES = 3
"""A warning in this many last lines of its log counts without a failure after it."""

WAITING = "waiting"
"""Page of the texts of a wait, among them frames."""

_VICTIMS = (Role.SYMPTOM, Role.WRAPPER)
_KNOWN_ROLES = (Role.BENIGN, Role.WARNING, Role.ROOT, Role.WRAPPER, Role.SYMPTOM)
"""Roles of a line that several signatures know: the last of these counts."""

_OF_A_START = ("start", "network")
"""Pages whose warnings are about a start alone."""

_BLAMELESS = (
    "start", "network", "infiniband", "nccl", "collectives", "jax", "ssh", "containers", "frameworks", "mpi",
    "placement", "slurm",
)  # fmt: skip
"""Pages whose signatures name nobody: the rank that prints the line may be a victim, or one of many with this fault."""

ANY_LEVEL = (*EXITS, "prompt-unanswered", "nccl-graph-file", "nccl-returns", "ofi-library-old")
"""Signatures of lines that count whatever level is in them."""

UNEXPLAINED = "unexplained"
STOPPED = "stopped-from-outside"
NO_RETURN = ("pool-broken", "shell-end")
"""Signatures of a pool whose tasks all fail from then on, and of the end of a launcher: what follows is no progress."""

ABSTAINING = (
    "killed", "native-crash", UNEXPLAINED, "nccl-unexplained", "nccl-waits", "gpu-unexplained", "peer-lost",
    "rank-absent", "stopped-from-outside", "dataloader-worker",
)  # fmt: skip
"""Classes without a cause: their verdict asks a question. A crash or a kill is a fact, and its reason is elsewhere."""


@dataclass(frozen=True)
class LogCause:
    """Cause that the logs support."""

    cause: CauseClass
    signature: str
    """Id of the signature or the finding; "exception" for an exception that none explains."""

    text: str
    """Verdict in one line."""

    confidence: Confidence
    ranks: tuple[int, ...]
    """Ranks that are named as the cause; () names nobody."""

    host: str | None
    evidence: tuple[EvidenceLine, ...]
    because: str = ""
    also: tuple[CauseClass, ...] = ()
    """Other classes that the text admits, where no fact decides between them."""

    @property
    def is_sole(self) -> bool:
        """Return True if the text admits no other cause; one of low confidence is a possibility."""
        return not self.also and self.confidence is not Confidence.LOW


@dataclass(frozen=True)
class RejectedText:
    """Text that is not the cause, and the reason."""

    cause: str
    evidence: EvidenceLine
    why: str


@dataclass(frozen=True)
class TextVerdict:
    """Causes that signatures name."""

    roots: tuple[LogCause, ...]
    """Those of texts that signatures know as roots, the most likely first."""

    others: tuple[LogCause, ...]
    """Those of uncaught exceptions, signals and symptoms, which are less likely."""

    rejected: tuple[RejectedText, ...]
    failed: bool
    """True if a text reports a failure that ended a process."""

    symptoms: tuple[LogMatch, ...]
    """Texts of victims among these."""

    roles: Mapping[tuple[str, int], Role]
    """Roles of the lines that signatures know, by file and number."""

    against: frozenset[str] = frozenset()
    """Classes that a fact of the logs excludes."""

    @property
    def causes(self) -> tuple[LogCause, ...]:
        """Return all causes, the most likely first."""
        return (*self.roots, *self.others)

    @property
    def first(self) -> LogCause | None:
        """Return the most likely cause; None if the texts show none."""
        return next(iter(self.causes), None)


_INFORMS = re.compile(r"\bINFO\b")
"""Level of a line that reports no failure."""

_WARNED = re.compile(r"\b\w{0,40}Warning: |\bWARNING\b|^warn\b|\bwarnings\.warn\(")


def judge_texts(catalogue: SignatureCatalogue, facts: LogFacts) -> TextVerdict:
    """Return the verdict of the signatures on the logs of one run."""
    return _Judge(catalogue, facts).verdict()


class _Judge:
    def __init__(self, catalogue: SignatureCatalogue, facts: LogFacts) -> None:
        self._catalogue = catalogue
        self._facts = facts
        self._rejected: list[RejectedText] = []
        self._against = {cause: match for match in facts.matches for cause in match.signature.against}
        """Facts of the logs that exclude a class, by class."""

        self._standing: set[str] = set()
        """Signatures of texts that inform of a failure which no process survived."""

    def verdict(self) -> TextVerdict:
        matches = self._facts.matches
        matches = [each for each in matches if each.signature.id in ANY_LEVEL or not _INFORMS.search(each.text[:HEAD])]
        self._standing = {each.signature.id for each in matches if not self._is_survived(each)}
        readings = [(match, self._read(match)) for match in matches]
        uncaught = [
            exception_match(self._catalogue, each) for scan in self._facts.scans for each in self._unexplained(scan)
        ]

        def of(role: Role, order: Order, found: Iterable[tuple[LogMatch, Clue]]) -> list[Candidate]:
            return [Candidate(*each, order) for each in found if _role(*each) is role]

        roots = self._specific(of(Role.ROOT, Order.KNOWN, readings)) + of(Role.ROOT, Order.RAISED, uncaught)
        readings += uncaught
        reports = of(Role.SYMPTOM, Order.VICTIM, readings) + of(Role.WRAPPER, Order.REPORT, readings)
        reports = [each for each in reports if self._is_fatal(each.match) and not self._is_survived(each.match)]
        fatal = self._fatal(roots)
        failed = dict.fromkeys((*(each for each in fatal if self._is_fatal(each.match)), *reports))
        every = latest(each.match for each in failed)
        others = latest(each.match for each in failed if not _has_own_cause(each))
        fatal += [
            _moderate(each)
            for each in of(Role.WARNING, Order.KNOWN, readings)
            if self._explains(each, others if each.match.signature.explains is None else every)
        ]
        for each in fatal:
            each.order = Order.KILLED if each.reading.cause in ("killed", "native-crash") else each.order
        ranked = sorted(in_time(merged(fatal)), key=lambda each: each.reading.cause == UNEXPLAINED)
        ranked = ranked or self._of_victims([each for each in reports if each.order is Order.VICTIM])
        ranked = ranked or merged(reports)[:1]
        for each in ranked[1:]:
            self._reject(each, f"later than, or a consequence of: {ranked[0].match.signature.means}")
        if ranked and ranked[0].order < Order.VICTIM:
            for each in merged(reports):
                self._reject(each, "a symptom or a report of the end")
        known = tuple(self._cause(each) for each in ranked if each.order is Order.KNOWN)
        rest = tuple(self._cause(each) for each in ranked if each.order is not Order.KNOWN)
        victims = tuple(each.match for each in failed if each.order is Order.VICTIM)
        roles = self._known_lines(readings)
        return TextVerdict(known, rest, tuple(self._rejected), bool(failed), victims, roles, frozenset(self._against))

    def _known_lines(self, readings: Iterable[tuple[LogMatch, Clue]]) -> dict[tuple[str, int], Role]:
        """Return the roles of the lines that signatures know."""
        roles: dict[tuple[str, int], Role] = {}
        for match, clue in readings:
            role, at = _role(match, clue), (match.file, match.line)
            if role in _KNOWN_ROLES and _KNOWN_ROLES.index(role) >= _KNOWN_ROLES.index(roles.get(at, Role.BENIGN)):
                roles[at] = role
        return roles

    def _read(self, match: LogMatch) -> Clue:
        if not self._standing.isdisjoint(match.signature.yields_to):
            return replace(default(match, Confidence.LOW), role=Role.SYMPTOM)
        clue = read(match, self._facts)
        if match.signature.id in EXITS:
            return clue
        return self._without_excluded(match, with_rank(clue, self._facts.ends, match))

    def _without_excluded(self, match: LogMatch, clue: Clue) -> Clue:
        """Return a clue without the classes that a fact of the logs excludes; it is no cause if none is left."""
        if clue.cause not in self._against or _role(match, clue) not in (Role.ROOT, Role.WARNING):
            return clue
        why = f"against it: {visible_line(self._against[clue.cause].text.strip())[:HEAD]}"
        if left := [each for each in clue.also if each not in self._against]:
            return replace(clue, cause=left[0], text=match.signature.means, also=tuple(left[1:]), because=why)
        self._reject(Candidate(match, clue, Order.KNOWN), why)
        return replace(clue, role=Role.CONTEXT)

    def _fatal(self, roots: list[Candidate]) -> list[Candidate]:
        """Return the roots that ended a process."""
        counted = [each for each in roots if self._counts(each)]
        raised = self._facts.is_in_exception
        by_signal = [each for each in counted if not raised(each.match.file, each.match.line)]
        by_signal = by_signal if self._facts.ended_by_signal else []
        for each in counted if by_signal else ():
            if each not in by_signal:
                self._reject(each, "a signal ended the processes: they survived this exception")
        counted = by_signal or counted
        survived = [
            each for each in counted if each.match.signature.id not in NO_RETURN and self._is_survived(each.match)
        ]
        for each in survived:
            self._reject(each, "the process made progress after it")
        return [each for each in counted if each not in survived]

    def _is_survived(self, match: LogMatch) -> bool:
        return self._facts.is_survived(match.file, match.line, match.origin)

    def _is_fatal(self, match: LogMatch) -> bool:
        return self._facts.is_fatal(match.file, match.line)

    def _specific(self, roots: list[Candidate]) -> list[Candidate]:
        """Drop generic roots on lines that a specific one explains."""
        lines = {(each.match.file, each.match.line) for each in roots if not each.match.signature.generic}
        return [
            each
            for each in roots
            if not each.match.signature.generic or (each.match.file, each.match.line) not in lines
        ]

    def _counts(self, candidate: Candidate) -> bool:
        match = candidate.match
        is_warned = _WARNED.search(match.text) and not _WARNED.search(match.signature.expression)
        if is_warned or self._is_handled(match):
            self._reject(candidate, "the program logged it as a warning and continued")
            return False
        if match.signature.page == "gpu" and match.signature.id in ("gpu-xid", "gpu-off-bus", "nvswitch-sxid"):
            return True
        if match.signature.id.startswith("kernel-") or self._facts.is_fatal(match.file, match.line):
            return True
        self._reject(candidate, "the log continues normally after it")
        return False

    def _is_handled(self, match: LogMatch) -> bool:
        facts = self._facts
        is_over = facts.ends.ended_after(match) or facts.is_continued(match)
        return is_over or facts.is_handled(match.file, match.line)

    def _explains(self, warning: Candidate, latest: Mapping[str, Sequence[LogMatch]]) -> bool:
        match, allowed = warning.match, warning.match.signature.explains
        others = any(scan.made_progress for scan in self._facts.scans if scan.file != match.file)
        started = others or self._facts.steps_after(match.file, match.line) > 0
        if allowed is None and match.signature.page in _OF_A_START and started:
            self._reject(warning, "the run made progress: its start succeeded")
            return False
        later = any(
            is_before(match, each) is not False
            for signature in (latest if allowed is None else allowed)
            for each in latest.get(signature, ())
        )
        scan = self._facts.by_file[match.file]
        last = scan.tail[-LAST_LINES:] if allowed is None else []
        ends = not scan.made_progress and any(match.signature.pattern.search(line.text) for line in last)
        if later or ends:
            return True
        self._reject(warning, "a warning that no failure follows")
        return False

    def _of_victims(self, symptoms: list[Candidate]) -> list[Candidate]:
        """Return the rank behind the victims; else read time-outs across ranks; else return the first symptom."""
        if found := self._of_one_behind(symptoms):
            return found
        if timeouts := [each for each in symptoms if each.match.signature.id in TIMEOUTS]:
            reading = read_waiting(self._facts)
            first = next((each for each in timeouts if each.match.origin.rank in reading.ranks), timeouts[0])
            others = [each.match for each in timeouts if each is not first]
            return [replace(first, reading=reading, others=others)]
        order = sorted(symptoms, key=lambda each: each.reading.cause == "unexplained")
        return [replace(each, reading=replace(each.reading, confidence=Confidence.LOW)) for each in merged(order)[:1]]

    def _of_one_behind(self, victims: Sequence[Candidate]) -> list[Candidate]:
        """Return the rank behind the victims, unless the numbers of collectives show it; [] for none."""
        by_numbers = self._facts.timeouts.deviating
        clue = read_silent(self._facts) if victims and not by_numbers else None
        if clue is None:
            return []
        first = next((each for each in victims if each.match.origin.rank in clue.ranks), victims[0])
        others = [each.match for each in victims if each is not first]
        return [replace(first, reading=clue, others=others, order=Order.VICTIM)]

    def _unexplained(self, scan: LogScan) -> list[ExceptionUnit]:
        """Return the exceptions that no signature explains and that are no wrappers."""
        matches = [match for match in scan.matches if match.signature.role is not Role.CONTEXT]
        known = {match.line for match in matches if match.signature.page != WAITING}
        forms = {each.signature.id: each.signature.pattern for each in matches if each.signature.role in _VICTIMS}
        return [
            unit
            for unit in scan.exceptions
            if not any(each.line in known or any(f.search(each.text) for f in forms.values()) for each in unit.chain)
        ]

    def _reject(self, candidate: Candidate, why: str) -> None:
        entry = RejectedText(candidate.reading.cause, evidence_of(candidate.match), why)
        if len(self._rejected) < 50 and not any(
            each.cause == entry.cause and each.evidence.file == entry.evidence.file for each in self._rejected
        ):
            self._rejected.append(entry)

    def _cause(self, candidate: Candidate) -> LogCause:
        return cause_of(self._catalogue, self._facts, candidate.match, candidate.reading, candidate.others)


def cause_of(
    catalogue: SignatureCatalogue, facts: LogFacts, match: LogMatch, clue: Clue, others: Sequence[LogMatch] = ()
) -> LogCause:
    """Return the cause that a match supports, as `clue` reads it; `others` are further matches of the same cause."""
    ranks, host = clue.ranks, None
    is_own = match.signature.role not in _VICTIMS and match.signature.page not in _BLAMELESS
    if not ranks and is_own and match.signature.id not in EXITS:
        origins = {each.origin for each in (match, *others)}
        ranks = tuple(sorted({each.rank for each in origins if each.rank is not None}))
        hosts = {each.host for each in origins}
        host = next(iter(hosts)) if len(hosts) == 1 else None
        if len(ranks) > 1 and len(ranks) >= max(2, len(facts.ranks)):
            ranks, host = (), None
    text = clue.text
    if not clue.ranks and (ranks or host):
        text = f"{' on '.join(filter(None, (named_ranks(ranks), host)))}: {text}"
    rest = sorted(
        {evidence_of(each) for each in others} - {evidence_of(match)},
        key=lambda each: (each.line, each.file, each.text),
    )
    evidence = (evidence_of(match), *rest)[:EVIDENCE_LINES]
    text = visible_line(text)[:LONGEST_TEXT]
    also = tuple(catalogue.causes[each] for each in clue.also if each != clue.cause)
    return LogCause(catalogue.causes[clue.cause], match.signature.id, text, clue.confidence, ranks, host, evidence,
                    clue.because, also)  # fmt: skip


def _role(match: LogMatch, reading: Clue) -> Role:
    return reading.role or match.signature.role


def _moderate(warning: Candidate) -> Candidate:
    """Return a warning with medium confidence at most, unless its signature names the failures that it explains."""
    is_cause = warning.reading.cause not in ABSTAINING
    if is_cause and warning.match.signature.explains is None and warning.reading.confidence is Confidence.HIGH:
        warning.reading = replace(warning.reading, confidence=Confidence.MEDIUM)
    return warning


def _has_own_cause(failure: Candidate) -> bool:
    """Return True for a failure that no warning explains: a known root, or an exception that the program raised."""
    unit = failure.match.exception
    is_raised = unit is not None and unit.chain[-1].is_of_program
    return failure.order < Order.VICTIM and (is_raised or failure.reading.cause not in ABSTAINING)
