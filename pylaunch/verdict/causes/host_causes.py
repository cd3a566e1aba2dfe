"""Causes that the facts of hosts and their network suggest: kernel messages, links, clocks, checks. Pure.

A fact that is later than the first failure is a consequence. A fact that several hosts share names none of them.
"""

from collections.abc import Callable, Iterable, Iterator

from pylaunch.base import kernel_log
from pylaunch.base.dataclass import dataclass
from pylaunch.model.diagnosis.cause import Certainty, FailureCause, Named, RejectedCause
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.finding import ATTESTATION
from pylaunch.model.diagnosis.hang import HangKind
from pylaunch.model.hostset import fold
from pylaunch.protocol.node_evidence import KernelEvent, RankEnd
from pylaunch.verdict.causes.cause_kinds import advised
from pylaunch.verdict.causes.unanswered import Pair, silent_pairs
from pylaunch.verdict.causes.xid import XidKind, explain
from pylaunch.verdict.failure_evidence import Evidence, seconds
from pylaunch.verdict.hangs.judge import judge_hang
from pylaunch.verdict.hangs.ranks import HangEvidence

KERNEL_S = 1.0
"""Precision of the time of a kernel message, beside the uncertainty of the clock."""

STEP_S = 5.0
"""A clock step from which rendezvous and heartbeats of frameworks go wrong: torch elastic allows 15 s."""

MOST_WARNINGS = 3
MOST_LINES = 4

Found = FailureCause | RejectedCause


@dataclass(frozen=True)
class HostEvent:
    """A kernel message with its host and its distance to the first failure."""

    host: str
    message: KernelEvent
    before_s: float
    """Seconds before the first failure; negative for later ones."""

    is_consequence: bool

    def __str__(self) -> str:
        order = "before" if self.before_s >= 0 else "after"
        return f"{self.host} kernel, {seconds(abs(self.before_s))} {order} the first failure: {self.message.text}"


def host_causes(evidence: Evidence, first: RankEnd) -> tuple[list[FailureCause], list[RejectedCause]]:
    """Return causes that the facts of hosts suggest for a run whose first failure is `first`, and rejected ones."""
    rules: tuple[Callable[[Evidence, RankEnd], Iterable[Found]], ...] = (
        _gpu, network_causes, _storage, view_causes, _processor, _clock, _versions, _warnings,
    )  # fmt: skip
    found = [each for rule in rules for each in rule(evidence, first)]
    return (
        [each for each in found if isinstance(each, FailureCause)],
        [each for each in found if isinstance(each, RejectedCause)],
    )


def events(evidence: Evidence, first: RankEnd, *kinds: str) -> list[HostEvent]:
    """Return the kernel messages of `kinds` on all hosts, oldest first."""
    found = []
    for facts in evidence.hosts:
        for message in facts.kernel:
            if message.kind in kinds:
                before_s = first.time - message.time
                slack = KERNEL_S + facts.uncertainty_s + first.uncertainty_s
                found.append(HostEvent(facts.host, message, before_s, before_s < -slack))
    return sorted(found, key=lambda each: (-each.before_s, each.host, each.message.text))


def rejected_late(found: Iterable[HostEvent]) -> Iterator[RejectedCause]:
    """Yield the messages that are consequences, as rejected causes."""
    for each in found:
        if each.is_consequence:
            why = f"{seconds(-each.before_s)} after the first failure"
            yield RejectedCause(f"{each.host}: {each.message.text}", why)


def only(hosts: Iterable[str], rank: int | None = None) -> Named | None:
    """Return the one of `hosts`, with `rank`; None for several hosts, of which none is named."""
    at = set(hosts)
    return Named(at.pop(), rank) if len(at) == 1 else None


def _gpu(evidence: Evidence, first: RankEnd) -> Iterator[Found]:
    found = events(evidence, first, kernel_log.XID, kernel_log.SXID)
    yield from rejected_late(found)
    causes = []
    for each in found:
        xid = explain(each.message.code or 0)
        is_fatal = each.message.kind == kernel_log.SXID and "Fatal" in each.message.text
        if each.is_consequence:
            continue
        if each.message.kind == kernel_log.XID and xid.kind is XidKind.PROGRAM:
            name = f"Xid {xid.code} on {each.host} ({xid.name})"
            yield RejectedCause(name, "a consequence of an error of the program, or of another Xid")
        elif is_fatal or (each.message.kind == kernel_log.XID and xid.kind is XidKind.DAMAGED):
            causes.append((each, Certainty.LIKELY))
        else:
            causes.append((each, Certainty.POSSIBLE))
    for confidence in (Certainty.LIKELY, Certainty.POSSIBLE):
        group = [each for each, level in causes if level is confidence]
        if group:
            hosts = {each.host for each in group}
            found_cause = FailureCause("gpu", _gpu_text(group, hosts), confidence, only(hosts), _lines(group))
            yield advised(found_cause, hosts)


def _gpu_text(group: list[HostEvent], hosts: set[str]) -> str:
    message = group[0].message
    xid = explain(message.code or 0)
    what = f"Xid {xid.code}, {xid.name}" if message.kind == kernel_log.XID else f"SXid {message.code}"
    if len(hosts) > 1:
        return f"GPU errors on {fold(hosts)}, first on {group[0].host}: {what}"
    return f"GPU error on {group[0].host}: {what} (PCI {message.device})"


def _storage(evidence: Evidence, first: RankEnd) -> Iterator[Found]:
    broken = events(evidence, first, kernel_log.IO_ERROR, kernel_log.READ_ONLY, kernel_log.SERVER_SILENT)
    hung = events(evidence, first, kernel_log.HUNG_TASK)
    yield from rejected_late([*broken, *hung])
    waiting = {host: [state.rank for state in states if state.state == "D"] for host, states in evidence.states.items()}
    waiting = {host: ranks for host, ranks in waiting.items() if ranks}
    found = [each for each in broken if not each.is_consequence]
    hung = [
        each for each in hung if not each.is_consequence and (each.message.rank is not None or each.host in waiting)
    ]
    if not found and not hung:
        return
    hosts = {each.host for each in (*found, *hung)}
    stuck = {host: ranks for host, ranks in waiting.items() if host in hosts}
    confidence = Certainty.LIKELY if stuck else Certainty.POSSIBLE
    shown = (found or hung)[0]
    if len(hosts) == 1 and len(stuck) == 1 and sum(map(len, stuck.values())) == 1:
        ((host, (rank,)),) = stuck.items()
        text = f"rank {rank} on {host} waits for storage (state D): {shown.message.text}"
        yield advised(FailureCause("storage", text, confidence, Named(host, rank), _lines([*found, *hung])), hosts)
        return
    text = f"storage fails on {fold(hosts)}: {shown.message.text}"
    named = only(hosts) if confidence is Certainty.LIKELY else None
    yield advised(FailureCause("storage", text, confidence, named, _lines([*found, *hung])), hosts)


def _processor(evidence: Evidence, first: RankEnd) -> Iterator[Found]:
    found = events(evidence, first, kernel_log.LOCKUP, kernel_log.HARDWARE)
    yield from rejected_late(found)
    found = [each for each in found if not each.is_consequence]
    if found:
        hosts = {each.host for each in found}
        text = f"hardware errors or hanging processors on {fold(hosts)}: {found[0].message.text}"
        yield advised(FailureCause("processor", text, Certainty.POSSIBLE, None, _lines(found)), hosts)


def _clock(evidence: Evidence, first: RankEnd) -> Iterator[FailureCause]:
    steps = {each.host: each.clock_step_s for each in evidence.hosts if abs(each.clock_step_s) >= STEP_S}
    if steps:
        texts = [f"{host}: {'forward' if step > 0 else 'back'} {seconds(abs(step))}" for host, step in steps.items()]
        text = f"the clock of {fold(steps)} was set during the run ({'; '.join(sorted(texts))})"
        yield advised(FailureCause("clock-step", text, Certainty.POSSIBLE), steps)


def _versions(evidence: Evidence, first: RankEnd) -> Iterator[FailureCause]:
    if differences := evidence.differences:
        text = f"nodes differed at the start: {differences[0]}"
        yield advised(FailureCause("versions-differ", text, Certainty.POSSIBLE, None, differences[:4]))


def _warnings(evidence: Evidence, first: RankEnd) -> Iterator[FailureCause]:
    warned = [each for each in evidence.findings if each.check != ATTESTATION]
    for finding in sorted(warned, key=lambda each: (each.check, each.hosts))[:MOST_WARNINGS]:
        text = f"{finding.check} warned about {fold(finding.hosts)} at the start: {finding.text}"
        found = FailureCause("check-warned", text, Certainty.POSSIBLE, None, finding.evidence[:2])
        yield advised(found, finding.hosts, device=finding.check)


def _lines(found: Iterable[HostEvent]) -> tuple[str, ...]:
    return tuple(map(str, found))[:MOST_LINES]


def lines_about(evidence: Evidence, end: RankEnd) -> list[str]:
    """Return facts of the host of `end` that belong to it: kernel messages of its process or its GPUs."""
    facts = evidence.of(end.host)
    if facts is None:
        return []
    kinds = {kind for kind, _ in kernel_log.TABLE} - {kernel_log.LINK_UP, kernel_log.SERVER_BACK}
    near = [each for each in events(evidence, end, *kinds) if each.host == end.host and _belongs(each, end)]
    return [f"{each.host} kernel: {each.message.text}" for each in near[:4]]


def _belongs(event: HostEvent, end: RankEnd) -> bool:
    if event.is_consequence:
        return False
    if event.message.rank is not None:
        return event.message.rank == end.rank
    if event.message.pid is not None:
        return f"pid {event.message.pid})" in end.error or f"(pid(s) {event.message.pid})" in end.error
    return event.before_s < 60.0


MOST_DISAGREEMENTS = 2


ACROSS_RANKS = (
    HangKind.OTHER_CALL, HangKind.OTHER_PLACE, HangKind.EXTRA_CALL, HangKind.GROUP_ORDER, HangKind.LATE, HangKind.BUSY,
    HangKind.INTERPRETER_HELD,
)  # fmt: skip
"""Findings from which no other rule concludes."""


def view_causes(evidence: Evidence, first: RankEnd) -> Iterator[FailureCause]:
    """Yield possible causes for a run whose first failure is that of a victim, without those that name a victim."""
    ended = {end.rank for end in evidence.failures}
    views = tuple(sorted((each for each in evidence.views if each.rank not in ended), key=lambda each: each.rank))
    if not first.symptom or len(views) < 2:
        return
    hosts = {rank: host for host, ranks in evidence.ranks.items() for rank in ranks if rank not in ended}
    seen = {each.rank for each in views}
    found = [each for each in judge_hang(HangEvidence("RUN", hosts, (views,))) if each.kind in ACROSS_RANKS]
    found = [each for each in found if each.confidence is not Confidence.LOW and seen.issuperset(each.ranks)]
    for each in found[:MOST_DISAGREEMENTS]:
        yield advised(
            FailureCause("ranks-disagree", each.text, Certainty.POSSIBLE, None, each.evidence[:4]), each.hosts
        )


def network_causes(evidence: Evidence, first: RankEnd) -> Iterator[FailureCause | RejectedCause]:
    """Yield the causes in the network."""
    pairs = silent_pairs(evidence.hosts)
    yield from _links(evidence, first, {host for pair in pairs for host in pair})
    yield from _paths(evidence, pairs)
    yield from _readers(evidence)


def _paths(evidence: Evidence, pairs: dict[Pair, list[str]]) -> Iterator[FailureCause]:
    live = {pair: lines for pair, lines in pairs.items() if not evidence.lost.keys() & set(pair)}
    if not live:
        return
    hosts = {host for pair in live for host in pair}
    edges = {frozenset(pair) for pair in live}
    common = [host for host in sorted(hosts) if all(host in edge for edge in edges)]
    lines = [line for found in live.values() for line in found[:2]]
    if len(edges) > 1 and len(common) == 1:
        host = common[0]
        text = f"{host} is cut off from {fold(hosts - {host})}"
        yield _path(text, lines, Named(host, None))
    elif len(edges) == 1:
        ((one, other),) = (tuple(sorted(edge)) for edge in edges)
        yield _path(f"connections of ranks between {one} and {other} get no answer: a firewall or a route", lines, None)
    else:
        yield _path(f"connections of ranks between hosts {fold(hosts)} get no answer", lines, None)


def _path(text: str, lines: list[str], named: Named | None) -> FailureCause:
    return advised(FailureCause("path-blocked", text, Certainty.LIKELY, named, tuple(lines[:6])))


def _readers(evidence: Evidence) -> Iterator[FailureCause]:
    owners = evidence.owners
    found: dict[str, list[str]] = {}
    for facts in evidence.hosts:
        for each in facts.stuck:
            peer = owners.get(each.peer)
            if peer is not None and peer != facts.host and each.probes > 0 and each.rank is not None:
                line = f"rank {each.rank} on {facts.host}: {peer} does not read {each.send_queue} bytes"
                found.setdefault(peer, []).append(line)
    for peer, lines in sorted(found.items()):
        text = f"a rank on {peer} no longer reads from its connections"
        yield advised(FailureCause("not-reading", text, Certainty.POSSIBLE, None, tuple(sorted(lines)[:4])))


def _links(evidence: Evidence, first: RankEnd, silent: set[str]) -> Iterator[FailureCause | RejectedCause]:
    down: dict[str, tuple[str, str]] = {}
    for facts in evidence.hosts:
        slack = 1.0 + facts.uncertainty_s + first.uncertainty_s
        for message in facts.kernel:
            if message.kind != kernel_log.LINK_DOWN:
                continue
            before_s = first.time - message.time
            if before_s < -slack:
                why = f"{seconds(-before_s)} after the first failure"
                yield RejectedCause(f"{facts.host}: {message.text}", why)
            else:
                ago = f"{facts.host} kernel, {seconds(max(0.0, before_s))} before the first failure: {message.text}"
                down.setdefault(facts.host, (message.device, ago))
    if not down:
        return
    is_shared = len(down) > 1
    confidence = Certainty.LIKELY if silent & down.keys() else Certainty.POSSIBLE
    devices = sorted({device for device, _ in down.values()})
    text = f"network link down on {fold(down)} ({', '.join(devices[:3])})"
    named = Named(next(iter(down)), None) if not is_shared and confidence is Certainty.LIKELY else None
    lines = tuple(line for _, line in sorted(down.values()))[:4]
    yield advised(FailureCause("link", text, confidence, named, lines), down, devices[0])
