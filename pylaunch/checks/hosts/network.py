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

LOOPBACK = "lo"


def _routes_asked(host: Host, wanted: Wanted) -> Mapping[str, Any]:
    peers = [address for name, address in wanted.peers.items() if name != host.name]
    return {
        **network_readers.routes.ask(peers),
        **network_readers.interface_list.ask(None),
    }


def ways(routes: Mapping[str, Any]) -> dict[str, str]:
    """Return the interface to each address of another machine, from the result of `network.routes`."""
    return {address: way["interface"] for address, way in routes.items() if way.get("source") and way["interface"]}


def rank_interface(survey: Survey, host: str) -> str | None:
    """Return the interface of ranks on `host`: the inventory's, else the one to all peers; None when unknown."""
    present = survey.measured(network_readers.interface_list).get(host, {})
    chosen = survey.cluster[host].interface
    if chosen is not None:
        return chosen if chosen in present else None
    found = set(ways(survey.measured(network_readers.routes).get(host, {})).values())
    return found.pop() if len(found) == 1 else None


def _interface(survey: Survey) -> Iterable[Finding]:
    present = survey.measured(network_readers.interface_list)
    for host, routes in survey.measured(network_readers.routes).items():
        for address, way in routes.items():
            if "why" in way:
                yield _finding(host, Severity.FAIL, f"no way to {_named(survey, address)}: {way['why']}")
        if host in present:
            yield from _chosen(survey.cluster[host], present[host], ways(routes))


def _chosen(host: Host, present: Mapping[str, Any], taken: Mapping[str, str]) -> Iterable[Finding]:
    if host.interface is not None and host.interface not in present:
        text = f"the inventory says interface={host.interface}, and there are {', '.join(sorted(present))}"
        yield _finding(host.name, Severity.FAIL, text, fix=f"correct interface= of {host.name}")
    elif host.interface is not None:
        others = sorted({name for name in taken.values() if name != host.interface})
        if others:
            text = (
                f"interface={host.interface} in the inventory, and the kernel sends to peers over {', '.join(others)}"
            )
            yield _finding(host.name, Severity.WARN, text, fix="set fabric_address= to addresses of that interface")
    elif len(set(taken.values())) > 1:
        text = f"peers are reached over several interfaces: {', '.join(sorted(set(taken.values())))}"
        yield _finding(host.name, Severity.WARN, text, fix="say which one ranks use: interface= in the inventory")


def _finding(host: str, severity: Severity, text: str, *, fix: str = "") -> Finding:
    return Finding("network.interface", severity, (host,), text, fix=fix)


def _named(survey: Survey, address: str) -> str:
    names = [name for name, each in survey.wanted.peers.items() if each == address and name != address]
    return f"{names[0]} ({address})" if names else address


def _in_use(survey: Survey) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return host → interface of its ranks: name and properties."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for host, present in survey.measured(network_readers.interface_list).items():
        name = rank_interface(survey, host)
        if name is not None and name != LOOPBACK:
            found[host] = name, present[name]
    return found


def _mtu(survey: Survey) -> Iterable[Finding]:
    values = {host: str(read["mtu"]) for host, (_, read) in _in_use(survey).items() if read["mtu"]}
    fix = "ip link set dev INTERFACE mtu N, and in the network configuration"
    yield from odd_ones(Rule("network.mtu", Severity.WARN, "MTU of the interface to the peers", fix), values)


def _link(survey: Survey) -> Iterable[Finding]:
    used = _in_use(survey)
    for host, (name, read) in used.items():
        if read["carrier"] == 0 or read["state"] in ("down", "lowerlayerdown"):
            text = f"{name} has no link (state {read['state']})"
            yield Finding("network.link", Severity.FAIL, (host,), text, fix=f"ip link set dev {name} up; see its cable")
    speeds = {host: f"{read['speed']} Mb/s" for host, (_, read) in used.items() if (read["speed"] or 0) > 0}
    fix = "ethtool INTERFACE; see its cable and the port of the switch"
    yield from odd_ones(Rule("network.link", Severity.WARN, "speed of the link to the peers", fix), speeds)


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
        "network.mtu", "the same MTU everywhere",
        "Large packets to a host with a smaller MTU are lost: RDMA stops, TCP too unless both ends announce their MTU.",
        "the majority, for the interface that leads to the peers",
        Severity.WARN, _routes_asked, _mtu,
    ),
    Check(
        "network.link", "links are up and equally fast",
        "Every step of a run is as slow as its slowest link.",
        "the majority of speeds",
        Severity.FAIL, _routes_asked, _link,
    ),
    *network_matrix.CHECKS,
)  # fmt: skip
