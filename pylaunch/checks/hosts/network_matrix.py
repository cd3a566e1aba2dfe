"""Connections between all pairs of hosts, on ports like those of a run."""

from collections.abc import Iterable, Mapping
from typing import Any

from pylaunch.base.dataclass import dataclass
from pylaunch.checks import mesh
from pylaunch.checks.check import AtStart, Check
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.text.argv import pylaunch

RENDEZVOUS = "rendezvous"
OPEN = (
    "open {ports} between the members: firewall_enabled=true in the inventory, then pylaunch provision --roles firewall"
    "; or the cloud's security group"
)
NAME = "an address that all hosts reach: fabric_address= or ansible_host= in an inventory (pylaunch init writes one)"
_HOW = {
    "silent": "get no answer: something drops them",
    "refused": "are refused, though it listens: a firewall rejects them, or another machine has its address",
    "mute": "are accepted and nobody answers: something between takes them for it",
    "closed": "are accepted and cut off: something between looks into them",
    "stranger": "are answered by another program",
    "nameless": "fail, as its address does not resolve",
    "stalled": "open, and full packets do not get through: the path is narrower than the MTU of both ends",
}
_NARROW = "ping -M do -s SIZE between the two, and mend the MTU of what lies between (VLAN, tunnel, switch)"


def _asked(host: Host, wanted: Wanted) -> Mapping[str, Any]:
    return {mesh.MATRIX: None}


def _ports(survey: Survey) -> Iterable[Finding]:
    ends = {
        (source, target): ends
        for source, found in survey.measured(mesh.MATRIX).items()
        for target, ends in found["row"].items()
    }
    for (way, kinds), failed in failures(ends).items():
        measured = {pair for pair, tried in ends.items() if kinds <= tried.keys()}
        for blame in blames(failed, measured):
            yield _closed(survey, blame, kinds, way)


def _way(end: mesh.End) -> str:
    if end["end"] == "other":
        return f"are answered by {end.get('name')}: two machines have one address"
    return f"fail: {end.get('text')}" if end["end"] == "unreachable" else end["end"]


def _closed(survey: Survey, blame: "Blame", kinds: frozenset[str], way: str) -> Finding:
    first = survey.cluster.names[0]
    is_needed = kinds != {RENDEZVOUS} or blame.incoming in (first, None)
    ports = _ports_named(survey, blame, kinds)
    how = _HOW.get(way, way)
    if blame.incoming is None:
        host, text = str(blame.outgoing), f"connections from it to the other hosts' {ports} {how}"
    elif blame.outgoing is None:
        host, text = blame.incoming, f"connections from the other hosts to its {ports} {how}"
    else:
        host, text = blame.outgoing, f"connections from it to {ports} of {blame.incoming} {how}"
    severity = Severity.FAIL if is_needed and survey.wanted.connected else Severity.WARN
    if not is_needed:
        text += f"; ranks meet there only when it is the first host, now {first}"
    role = "firewall" if way in ("silent", "refused") or way.startswith("fail") else ""
    fix = {"nameless": NAME, "stalled": _NARROW}.get(way, OPEN.format(ports=f"TCP {ports}"))
    if way.startswith("are answered"):
        fix = f"ip neigh show to {survey.wanted.peers.get(blame.incoming or '', 'ADDRESS')}"
    return Finding("network.ports", severity, (host,), text, fix=fix, role=role)


def _ports_named(survey: Survey, blame: "Blame", kinds: frozenset[str]) -> str:
    if kinds == {RENDEZVOUS}:
        return f"rendezvous port {survey.wanted.port}"
    target = blame.incoming or next(name for name in survey.cluster.names if name != blame.outgoing)
    found = survey.measured(mesh.MATRIX).get(target)
    ports = found["ephemeral_range"] if found is not None else None
    reach = "" if ports is None else f" ({ports[0]}-{ports[1]})"
    together = f"ports, rendezvous ({survey.wanted.port}) and ephemeral{reach}"
    return together if RENDEZVOUS in kinds else f"ephemeral ports{reach}"


def _free(survey: Survey) -> Iterable[Finding]:
    first = survey.cluster.names[0]
    found = survey.measured(mesh.MATRIX).get(first)
    taken = found["taken"] if found is not None else None
    if taken is None:
        return
    by = f"held by {' '.join(taken['by'].split())}" if taken["by"] else f"not available: {taken.get('why')}"
    run = f", run {taken['run']}" if taken["run"] and taken["run"] not in taken["by"] else ""
    text = f"rendezvous port {survey.wanted.port} is {by}{run}"
    if survey.wanted.any_port:
        yield Finding("network.port_free", Severity.NOTE, (first,), f"{text}; start takes the next one that is free")
    else:
        stop = pylaunch("stop", taken["run"]) if taken["run"] else "choose another with --port"
        yield Finding("network.port_free", Severity.FAIL, (first,), text, fix=stop)


CHECKS = (
    Check(
        "network.ports", "hosts reach each other's ports",
        "NCCL and gloo listen on ephemeral ports that the kernel chooses; an open rendezvous port is not enough.",
        "every host connects to an ephemeral port and the rendezvous port of every other, which answers with its own"
        " identity, and sends 32 KiB",
        Severity.FAIL, _asked, _ports,
        at_start=AtStart.REPORTED,
        at_start_why="ephemeral ports: all pairs of up to 32 nodes, then neighbours and the first node",
    ),
    Check(
        "network.port_free", "the rendezvous port is free",
        "Ranks hang, or connect to the other program, if the port is in use.",
        "bind the port on the first host and listen on it for a moment", Severity.FAIL, _asked, _free,
        at_start=AtStart.AGENT,
    ),
)  # fmt: skip


Pair = tuple[str, str]
"""Source and target of a connection."""


@dataclass(frozen=True)
class Blame:
    """Failed connections that one host or one pair of hosts explains."""

    incoming: str | None
    """The host that cannot be reached; None when only connections from `outgoing` fail."""

    outgoing: str | None
    """The host that cannot connect to others. With `incoming` set too, the two form one pair."""


def blames(failed: Iterable[Pair], measured: Iterable[Pair]) -> tuple[Blame, ...]:
    """Return the hosts that explain why the pairs `failed`, out of all pairs that were `measured`.

    The host with most failures comes first; at a tie, the listening host. A host is blamed only if *all* its measured
    connections failed, with at least two others: between two hosts alone, the cause is unknown.
    """
    unexplained = set(failed)
    lines: dict[Blame, set[Pair]] = {}
    for source, target in measured:
        lines.setdefault(Blame(target, None), set()).add((source, target))
        lines.setdefault(Blame(None, source), set()).add((source, target))
    full = {blame: cells for blame, cells in lines.items() if len(cells) > 1 and cells <= unexplained}
    found: list[Blame] = []
    while full:
        blame = max(full, key=lambda each: (len(full[each] & unexplained), each.incoming is not None))
        if len(full.pop(blame) & unexplained) < 2:
            break
        found.append(blame)
        unexplained -= lines[blame]
    pairs = sorted(unexplained)
    return (*found, *(Blame(target, source) for source, target in pairs))


def failures(ends: Mapping[Pair, Mapping[str, mesh.End]]) -> dict[tuple[str, frozenset[str]], set[Pair]]:
    """Return the pairs that fail, by how they fail and the kinds of port that fail so."""
    found: dict[tuple[str, frozenset[str]], set[Pair]] = {}
    for pair, tried in ends.items():
        kinds: dict[str, set[str]] = {}
        for kind, end in tried.items():
            kinds.setdefault(_way(end), set()).add(kind)
        for way in kinds.keys() - {"ok"}:
            found.setdefault((way, frozenset(kinds[way])), set()).add(pair)
    return dict(sorted(found.items(), key=lambda each: (each[0][0], sorted(each[0][1]))))
