"""Causes that facts of hosts suggest: kernel messages, links, paths, storage, clocks, versions. Pure.

A fact that is later than the first failure is a consequence. A fact that several hosts share names none of them.
"""

from collections.abc import Callable, Iterable, Iterator

from pylaunch.base import kernel_log
from pylaunch.model.diagnosis.cause import FailureCause, Named, RejectedCause
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import fold
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.causes.cause_kinds import advised
from pylaunch.verdict.causes.host_facts import (
    MOST_LINES,
    HostEvent,
    HostFact,
    gpu_fact,
    is_broken_gpu,
    lines_of,
    link_fact,
    path_fact,
    unanswered_connections,
)
from pylaunch.verdict.causes.xid import XidKind, explain
from pylaunch.verdict.failure_evidence import Evidence, seconds

KERNEL_S = 1.0
"""Precision of the time of a kernel message, beside the uncertainty of the clock."""

STEP_S = 5.0
"""A clock step from which rendezvous and heartbeats of frameworks go wrong: torch elastic allows 15 s."""

Found = FailureCause | RejectedCause


def host_causes(evidence: Evidence, first: RankEnd) -> tuple[list[FailureCause], list[RejectedCause]]:
    """Return causes that the facts of hosts suggest for a run whose first failure is `first`, and rejected ones."""
    rules: tuple[Callable[[Evidence, RankEnd], Iterable[Found]], ...] = (
        _gpus, _links, _paths, _storage, _clocks, _versions,
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
                when = f", {seconds(abs(before_s))} {'before' if before_s >= 0 else 'after'} the first failure"
                found.append(HostEvent(facts.host, message, when, before_s, before_s < -slack))
    return sorted(found, key=lambda each: (-each.before_s, each.host, each.message.text))


def only(hosts: Iterable[str], rank: int | None = None) -> Named | None:
    """Return the one of `hosts`, with `rank`; None for several hosts, of which none is named."""
    at = set(hosts)
    return Named(at.pop(), rank) if len(at) == 1 else None


def _divided(found: Iterable[HostEvent]) -> tuple[list[HostEvent], list[RejectedCause]]:
    """Return the messages before the first failure, and the later ones as rejected causes."""
    listed = [*found]
    rejected = [
        RejectedCause(f"{each.host}: {each.message.text}", f"{seconds(-each.before_s)} after the first failure")
        for each in listed
        if each.is_consequence
    ]
    return [each for each in listed if not each.is_consequence], rejected


def _gpus(evidence: Evidence, first: RankEnd) -> Iterator[Found]:
    found, rejected = _divided(events(evidence, first, kernel_log.XID, kernel_log.SXID))
    yield from rejected
    broken, others = [], []
    for each in found:
        xid = explain(each.message.code or 0)
        if is_broken_gpu(each.message):
            broken.append(each)
        elif each.message.kind == kernel_log.XID and xid.kind is XidKind.PROGRAM:
            name = f"Xid {xid.code} on {each.host} ({xid.name})"
            yield RejectedCause(name, "a consequence of an error of the program, or of another Xid")
        else:
            others.append(each)
    for group, confidence in ((broken, Confidence.MEDIUM), (others, Confidence.LOW)):
        if (fact := gpu_fact(group)) is not None:
            yield _cause(fact, confidence)


def _links(evidence: Evidence, first: RankEnd) -> Iterator[Found]:
    found, rejected = _divided(events(evidence, first, kernel_log.LINK_DOWN))
    yield from rejected
    if (fact := link_fact(found, unanswered_connections(evidence.hosts))) is not None:
        yield _cause(fact, Confidence.MEDIUM if fact.is_proven else Confidence.LOW)


def _paths(evidence: Evidence, _first: RankEnd) -> Iterator[FailureCause]:
    unanswered = unanswered_connections(evidence.hosts)
    fact = path_fact(each for each in unanswered if not evidence.lost.keys() & {each.host, each.peer})
    if fact is not None:
        yield _cause(fact, Confidence.MEDIUM)


def _cause(fact: HostFact, confidence: Confidence) -> FailureCause:
    named = only(fact.named) if fact.is_proven or fact.kind == "path-blocked" else None
    return advised(FailureCause(fact.kind, fact.text, confidence, named, fact.lines), fact.hosts, fact.device)


def _storage(evidence: Evidence, first: RankEnd) -> Iterator[Found]:
    kinds = kernel_log.IO_ERROR, kernel_log.READ_ONLY, kernel_log.SERVER_SILENT, kernel_log.HUNG_TASK
    found, rejected = _divided(events(evidence, first, *kinds))
    yield from rejected
    waiting = {host: [state.rank for state in states if state.state == "D"] for host, states in evidence.states.items()}
    waiting = {host: ranks for host, ranks in waiting.items() if ranks}
    hung = [each for each in found if each.message.kind == kernel_log.HUNG_TASK]
    found = [each for each in found if each not in hung]
    found += [each for each in hung if each.message.rank is not None or each.host in waiting]
    if not found:
        return
    hosts = {each.host for each in found}
    stuck = [(host, rank) for host in sorted(waiting.keys() & hosts) for rank in waiting[host]]
    confidence = Confidence.MEDIUM if stuck else Confidence.LOW
    text = f"storage fails on {fold(hosts)}: {found[0].message.text}"
    named = only(hosts) if stuck else None
    if len(hosts) == 1 and len(stuck) == 1:
        ((host, rank),) = stuck
        text = f"rank {rank} on {host} waits for storage (state D): {found[0].message.text}"
        named = Named(host, rank)
    yield advised(FailureCause("storage", text, confidence, named, lines_of(found)), hosts)


def _clocks(evidence: Evidence, _first: RankEnd) -> Iterator[FailureCause]:
    steps = {each.host: each.clock_step_s for each in evidence.hosts if abs(each.clock_step_s) >= STEP_S}
    if steps:
        texts = [f"{host}: {'forward' if step > 0 else 'back'} {seconds(abs(step))}" for host, step in steps.items()]
        text = f"the clock of {fold(steps)} was set during the run ({'; '.join(sorted(texts))})"
        yield advised(FailureCause("clock-step", text, Confidence.LOW), steps)


def _versions(evidence: Evidence, _first: RankEnd) -> Iterator[FailureCause]:
    if differences := evidence.differences:
        text = f"nodes differed at the start: {differences[0]}"
        yield advised(FailureCause("versions-differ", text, Confidence.LOW, None, differences[:MOST_LINES]))


def lines_about(evidence: Evidence, end: RankEnd) -> list[str]:
    """Return facts of the host of `end` that belong to it: kernel messages of its process or its GPUs."""
    kinds = {kind for kind, _ in kernel_log.TABLE} - {kernel_log.LINK_UP, kernel_log.SERVER_BACK}
    near = [each for each in events(evidence, end, *kinds) if each.host == end.host and _belongs(each, end)]
    return [f"{each.host} kernel: {each.message.text}" for each in near[:MOST_LINES]]


def _belongs(event: HostEvent, end: RankEnd) -> bool:
    if event.is_consequence:
        return False
    if event.message.rank is not None:
        return event.message.rank == end.rank
    if event.message.pid is not None:
        return f"pid {event.message.pid})" in end.error or f"(pid(s) {event.message.pid})" in end.error
    return event.before_s < 60.0
