"""Causes in the network: links that went down, and pairs of hosts whose packets are not answered. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pylaunch.base import kernel_log
from pylaunch.model.diagnosis.cause import Certainty, FailureCause, Named, RejectedCause
from pylaunch.model.hostset import fold
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.causes.cause_kinds import advised
from pylaunch.verdict.causes.unanswered import OK, Pair, silent_pairs
from pylaunch.verdict.failure_evidence import Evidence, seconds

COUNTED_LINKS = ("carrier_changes", "link_downed")


def network_causes(evidence: Evidence, first: RankEnd) -> Iterator[FailureCause | RejectedCause]:
    """Yield the causes in the network."""
    pairs = silent_pairs(evidence.hosts, evidence.tried)
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
        ends = [evidence.tried.get(a, {}).get(b, "") for a, b in ((one, other), (other, one))]
        text = f"{one} and {other} no longer reach each other: a firewall or a route"
        if OK in ends:
            text = f"connections of ranks between {one} and {other} get no answer, and new ones do: a firewall"
        yield _path(text, lines, None)
    else:
        yield _path(f"hosts {fold(hosts)} no longer reach each other", lines, None)


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
        for name, rise in facts.rises.items():
            if name.endswith(COUNTED_LINKS):
                device = name.split(" ")[0]
                down.setdefault(facts.host, (device, f"{facts.host}: {name} +{rise} since the start"))
    if not down:
        return
    is_shared = len(down) > 1
    confidence = Certainty.LIKELY if silent & down.keys() else Certainty.POSSIBLE
    devices = sorted({device for device, _ in down.values()})
    text = f"network link down on {fold(down)} ({', '.join(devices[:3])})"
    named = Named(next(iter(down)), None) if not is_shared and confidence is Certainty.LIKELY else None
    lines = tuple(line for _, line in sorted(down.values()))[:4]
    yield advised(FailureCause("link", text, confidence, named, lines), down, devices[0])
