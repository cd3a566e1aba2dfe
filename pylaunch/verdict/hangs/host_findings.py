"""Findings about ranks that do not advance from the facts of their hosts: paths, links, GPUs. Pure.

Only facts of the time since the last sign of progress count. A path that is blocked involves two hosts: both are shown,
and one is named only if several others lose it. Facts that are possible causes and no more are lines of evidence of
another finding.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from pylaunch.base import kernel_log
from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.model.hostset import fold
from pylaunch.protocol.node_evidence import KernelEvent
from pylaunch.verdict.causes.host_facts import (
    SilentPaths,
    UnansweredConnection,
    is_broken_gpu,
    shown_gpu_error,
    silent_paths,
    unanswered_connections,
)
from pylaunch.verdict.hangs.ranks import HangEvidence

BEFORE_S = 60.0
"""Age of a kernel message at the last sign of progress up to which it may be the cause: others advance for a while."""

SURE_RETRANSMITS = 5
"""Retransmissions in a row that take six seconds: no passing loss of packets."""

MOST_LINES = 4
SHOWN = (
    kernel_log.XID, kernel_log.SXID, kernel_log.LINK_DOWN, kernel_log.IO_ERROR, kernel_log.READ_ONLY,
    kernel_log.SERVER_SILENT, kernel_log.HUNG_TASK, kernel_log.LOCKUP, kernel_log.HARDWARE, kernel_log.OOM_KILL,
)  # fmt: skip
"""Kinds of kernel messages that are shown as evidence."""

Messages = Mapping[str, tuple[KernelEvent, ...]]


def host_findings(
    evidence: HangEvidence, waits: str, *, is_transport: bool, late: Collection[str] = ()
) -> list[HangFinding]:
    """Return the findings that the facts of hosts prove or make likely.

    `waits`: the ranks that wait, in words; "" for none. `is_transport`: all ranks called the same collective, so the
    cause is below the script. `late`: hosts of the ranks that others wait for.
    """
    before = f"{waits}; " if waits else ""
    suspects = late if waits and not is_transport else evidence.hosts.values()
    found = [
        *_gpus(evidence, before, suspects),
        *_links(evidence, before, is_transport=is_transport),
        *_paths(evidence, before),
    ]
    return sorted(found, key=lambda each: each.confidence is not Confidence.HIGH)


def with_host_lines(finding: HangFinding, evidence: HangEvidence) -> HangFinding:
    """Return `finding` with the kernel messages and the connections that belong to its time."""
    lines = [f"{host} kernel: {each.text}" for host, messages in _recent(evidence).items() for each in messages]
    lines += _shown(silent_paths(_unanswered(evidence)))
    new = [line for line in dict.fromkeys(lines) if line not in finding.evidence]
    return replace(finding, evidence=(*finding.evidence, *new[:MOST_LINES])) if new else finding


def witnesses(evidence: HangEvidence, host: str) -> list[str]:
    """Return lines about packets to `host` that nobody acknowledges, as other hosts report them."""
    return [*_shown(silent_paths(each for each in _unanswered(evidence) if each.peer == host))[:MOST_LINES]]


def _shown(paths: SilentPaths | None) -> tuple[str, ...]:
    return () if paths is None else paths.lines


def _unanswered(evidence: HangEvidence) -> Iterator[UnansweredConnection]:
    return unanswered_connections(evidence.facts, evidence.addresses)


def _recent(evidence: HangEvidence) -> Messages:
    """Return the kernel messages of the time of the hang by host; without links and servers that are back."""
    found = {}
    for facts in sorted(evidence.facts, key=lambda each: each.host):
        since = evidence.quiet_since - BEFORE_S - facts.uncertainty_s
        messages = [each for each in facts.kernel if each.time >= since]
        back = {kernel_log.LINK_DOWN: kernel_log.LINK_UP, kernel_log.SERVER_SILENT: kernel_log.SERVER_BACK}
        kept = tuple(
            each
            for number, each in enumerate(messages)
            if each.kind in SHOWN
            and not any(
                later.kind == back.get(each.kind) and later.device == each.device for later in messages[number:]
            )
        )
        if kept:
            found[facts.host] = kept
    return found


def _of_kind(evidence: HangEvidence, applies: Callable[[KernelEvent], bool]) -> Messages:
    """Return the recent kernel messages to which `applies` applies, by host."""
    found = {host: tuple(filter(applies, messages)) for host, messages in _recent(evidence).items()}
    return {host: messages for host, messages in found.items() if messages}


def _lines(found: Messages) -> tuple[str, ...]:
    return tuple(f"{host} kernel: {each.text}" for host, messages in found.items() for each in messages)[:MOST_LINES]


def _gpus(evidence: HangEvidence, before: str, suspects: Collection[str]) -> Iterator[HangFinding]:
    """Judge GPUs; one of a host that nobody waits for may belong to another run."""
    found = _of_kind(evidence, is_broken_gpu)
    if not found:
        return
    first = next(iter(found.values()))[0]
    is_sure = len(found) == 1 and next(iter(found)) in suspects
    yield HangFinding(
        HangKind.GPU, f"{before}GPU error on {fold(found)}: {shown_gpu_error(first)} (PCI {first.device})",
        Confidence.HIGH if is_sure else Confidence.MEDIUM, (), tuple(found) if is_sure else (), _lines(found),
        hint=f"pylaunch check --only gpu --limit {fold(found)}",
    )  # fmt: skip


def _links(evidence: HangEvidence, before: str, *, is_transport: bool) -> Iterator[HangFinding]:
    found = _of_kind(evidence, lambda message: message.kind == kernel_log.LINK_DOWN)
    ends = {end for each in _unanswered(evidence) for end in (each.host, each.peer)}
    is_seen = bool((ends | evidence.silent_hosts.keys()) & found.keys())
    if not found or not (is_seen or is_transport):
        return
    is_one = len(found) == 1
    devices = sorted({each.device for messages in found.values() for each in messages})
    yield HangFinding(
        HangKind.LINK, f"{before}network link down on {fold(found)} ({', '.join(devices[:3])})",
        Confidence.HIGH if is_one and is_seen else Confidence.MEDIUM, (), tuple(found) if is_one else (), _lines(found),
        hint=f"on {next(iter(found))}: ethtool {devices[0]}",
    )  # fmt: skip


def _paths(evidence: HangEvidence, before: str) -> Iterator[HangFinding]:
    live = (each for each in _unanswered(evidence) if not {each.host, each.peer} & {*evidence.silent_hosts})
    found = silent_paths(live)
    if found is None or found.longest is None:
        return
    is_sure = found.longest.connection.retransmits >= SURE_RETRANSMITS
    named: tuple[str, ...] = (found.cut_off,) if found.cut_off else ()
    if found.is_one_pair and found.reported_by == found.hosts:
        is_sure, named = True, found.hosts
    yield HangFinding(
        HangKind.PATH_BLOCKED, f"{before}{found.text}: {found.longest.ports}",
        Confidence.HIGH if is_sure else Confidence.MEDIUM, (), named, found.lines[:MOST_LINES],
        hint=f"pylaunch check --only network.ports --limit {fold(found.hosts)}",
    )  # fmt: skip
