"""Interfaces of hosts and the routes between them, as the hosts report."""

from collections.abc import Iterable, Mapping
from typing import Any

from pylaunch.agent.probe.readers.hosts import network as network_readers
from pylaunch.checks.check import AtStart, Check
from pylaunch.checks.hosts import network_matrix
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.diagnosis.majority import Rule, odd_ones
from pylaunch.model.text.argv import quoted

LOOPBACK = "lo"


def _routes_asked(host: Host, wanted: Wanted) -> Mapping[str, Any]:
    peers = [address for name, address in wanted.peers.items() if name != host.name]
    return {
        **network_readers.routes.ask(peers),
        **network_readers.interface_list.ask(None),
    }


def _interface(survey: Survey) -> Iterable[Finding]:
    present = survey.measured(network_readers.interface_list)
    for host, routes in survey.measured(network_readers.routes).items():
        for address, way in routes.items():
            if "why" in way:
                yield _finding(host, Severity.FAIL, f"no way to {_named(survey, address)}: {way['why']}")
        if host in present:
            yield from _chosen(survey.cluster[host], present[host], _ways(routes))


def _ways(routes: Mapping[str, Any]) -> set[str]:
    """Return the interfaces to other machines, from the result of `network.routes`."""
    return {way["interface"] for way in routes.values() if way.get("source") and way["interface"]}


def _chosen(host: Host, present: Mapping[str, Any], taken: set[str]) -> Iterable[Finding]:
    if host.interface is not None and host.interface not in present:
        text = f"the inventory says interface={host.interface}, and there are {', '.join(sorted(present))}"
        yield _finding(host.name, Severity.FAIL, text, fix=f"correct interface= of {host.name}")
    elif host.interface is not None:
        if others := sorted(taken - {host.interface}):
            over = ", ".join(others)
            text = f"interface={host.interface} in the inventory, and the kernel sends to peers over {over}"
            yield _finding(host.name, Severity.WARN, text, fix="set fabric_address= to addresses of that interface")
    elif len(taken) > 1:
        text = f"peers are reached over several interfaces: {', '.join(sorted(taken))}"
        yield _finding(host.name, Severity.WARN, text, fix="say which one ranks use: interface= in the inventory")


def _finding(host: str, severity: Severity, text: str, *, fix: str = "") -> Finding:
    return Finding("network.interface", severity, (host,), text, fix=fix)


def _named(survey: Survey, address: str) -> str:
    names = [name for name, each in survey.wanted.peers.items() if each == address and name != address]
    return f"{names[0]} ({address})" if names else address


def _in_use(survey: Survey) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return host → interface of its ranks, which is that of the inventory or leads to all peers: name, properties."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    routes = survey.measured(network_readers.routes)
    for host, present in survey.measured(network_readers.interface_list).items():
        chosen = survey.cluster[host].interface
        names = {chosen} if chosen is not None else _ways(routes.get(host, {}))
        if len(names) == 1 and (name := min(names)) in present and name != LOOPBACK:
            found[host] = name, present[name]
    return found


def _link(survey: Survey) -> Iterable[Finding]:
    used = _in_use(survey)
    for host, (name, read) in used.items():
        if read["carrier"] == 0 or read["state"] in ("down", "lowerlayerdown"):
            text = f"{name} has no link (state {read['state']})"
            yield Finding(
                "network.link", Severity.FAIL, (host,), text, fix=f"ip link set dev {quoted((name,))} up; see its cable"
            )
    speeds = {host: f"{read['speed']} Mb/s" for host, (_, read) in used.items() if (read["speed"] or 0) > 0}
    fix = "ethtool INTERFACE; see its cable and the port of the switch"
    yield from odd_ones(Rule("network.link", Severity.WARN, "speed of the link to the peers", fix), speeds)
    sizes = {host: str(read["mtu"]) for host, (_, read) in used.items() if read["mtu"]}
    fix = "ip link set dev INTERFACE mtu N, and in the network configuration"
    yield from odd_ones(Rule("network.link", Severity.WARN, "MTU of the interface to the peers", fix), sizes)


CHECKS = (
    Check(
        "network.interface", "one interface leads to all peers, and it is the configured one",
        "NCCL and gloo listen on one interface; peers that are reached over another one wait in vain.",
        "the kernel's routes and the inventory (interface=)",
        Severity.FAIL, _routes_asked, _interface,
        at_start=AtStart.AGENT,
        at_start_why="refuses an interface that variables name and the host lacks, or the loopback of several hosts",
    ),
    Check(
        "network.link", "links are up, equally fast, and of one MTU",
        "Every step of a run is as slow as its slowest link; large packets to a host with a smaller MTU are lost.",
        "the majority, for the interface that leads to the peers",
        Severity.FAIL, _routes_asked, _link,
    ),
    *network_matrix.CHECKS,
)  # fmt: skip
