"""Findings about ranks that do not advance from the facts of their hosts: paths, links, GPUs. Pure.

Only facts of the time since the last sign of progress count. Facts that are possible causes and no more are lines of
evidence of another finding.
"""

from collections.abc import Collection, Iterator

from pylaunch.base import kernel_log
from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.cause import FailureCause
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.verdict.causes.cause_kinds import advised
from pylaunch.verdict.causes.host_facts import (
    MOST_LINES,
    HostEvent,
    UnansweredConnection,
    gpu_fact,
    is_broken_gpu,
    link_fact,
    path_fact,
    unanswered_connections,
)
from pylaunch.verdict.hangs.ranks import HangEvidence

BEFORE_S = 60.0
"""Age of a kernel message at the last sign of progress up to which it may be the cause: others advance for a while."""

BACK = {kernel_log.LINK_DOWN: kernel_log.LINK_UP, kernel_log.SERVER_SILENT: kernel_log.SERVER_BACK}
"""Kinds of messages that take back another one."""


def host_findings(
    evidence: HangEvidence, waits: str, *, is_transport: bool, late: Collection[str] = ()
) -> list[HangFinding]:
    """Return the findings that the facts of hosts prove or make likely.

    `waits`: the ranks that wait, in words; "" for none. `is_transport`: all ranks called the same collective, so the
    cause is below the script. `late`: hosts of the ranks that others wait for; a GPU of another host may belong to
    another run.
    """
    silent, unanswered, messages = evidence.silent_hosts.keys(), [*_unanswered(evidence)], _recent(evidence)
    suspects = late if waits and not is_transport else evidence.hosts.values()
    found = []
    if (fact := gpu_fact([each for each in messages if is_broken_gpu(each.message)])) is not None:
        is_sure = bool(fact.named) and fact.named[0] in suspects
        found.append((replace(fact, named=fact.named if is_sure else ()), is_sure))
    if (fact := link_fact(messages, unanswered, silent)) is not None and (fact.is_proven or is_transport):
        found.append((fact, bool(fact.named) and fact.is_proven))
    if (fact := path_fact(each for each in unanswered if not {each.host, each.peer} & silent)) is not None:
        found.append((fact, fact.is_proven))
    found.sort(key=lambda each: not each[1])
    return [
        HangFinding(
            HangKind(fact.kind), f"{waits}; {fact.text}" if waits else fact.text,
            Confidence.HIGH if is_sure else Confidence.MEDIUM, (), fact.named, fact.lines,
            advised(FailureCause(fact.kind, fact.text, Confidence.HIGH), fact.hosts, fact.device).hint,
        )
        for fact, is_sure in found
    ]  # fmt: skip


def with_host_lines(finding: HangFinding, evidence: HangEvidence) -> HangFinding:
    """Return `finding` with the kernel messages and the connections that belong to its time."""
    lines = [*map(str, _recent(evidence)), *witnesses(evidence, *evidence.hosts.values())]
    new = [line for line in dict.fromkeys(lines) if line not in finding.evidence]
    return replace(finding, evidence=(*finding.evidence, *new[:MOST_LINES])) if new else finding


def witnesses(evidence: HangEvidence, *hosts: str) -> tuple[str, ...]:
    """Return lines about packets to `hosts` that nobody acknowledges, as other hosts report them."""
    fact = path_fact(each for each in _unanswered(evidence) if each.peer in hosts)
    return () if fact is None else fact.lines


def _unanswered(evidence: HangEvidence) -> Iterator[UnansweredConnection]:
    return unanswered_connections(evidence.facts, evidence.addresses)


def _recent(evidence: HangEvidence) -> list[HostEvent]:
    """Return the kernel messages of the time of the hang; without links and servers that are back."""
    found = []
    for facts in sorted(evidence.facts, key=lambda each: each.host):
        since = evidence.quiet_since - BEFORE_S - facts.uncertainty_s
        messages = [each for each in facts.kernel if each.time >= since]
        for number, each in enumerate(messages):
            later = {(other.kind, other.device) for other in messages[number:]}
            is_back = (BACK.get(each.kind, ""), each.device) in later
            if not is_back and each.kind not in (*BACK.values(), kernel_log.SEGFAULT):
                found.append(HostEvent(facts.host, each))
    return found
