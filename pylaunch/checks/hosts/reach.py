"""Connections and names of hosts: SSH, the login shell, Python, host names."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any

from pylaunch.agent.probe.readers.hosts import reach as reach_readers
from pylaunch.checks import mesh
from pylaunch.checks.check import AtStart, Check, asks
from pylaunch.checks.survey import REACH, Survey, Wanted, shared_failures
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import is_address

PYTHON_NEEDED = (3, 8)
SHELL_PATIENCE_S = 2.0
"""A login shell that does nothing takes some milliseconds; every command of every verb waits for it again."""

_INTERACTIVE = "in its rc files, move it below: case $- in *i*) ;; *) return ;; esac (csh: if (! $?prompt) exit)"

HOST_BASELINE = "pylaunch provision --roles host_baseline"


def _ssh(survey: Survey) -> Iterable[Finding]:
    for each in shared_failures(survey.cluster, survey.unreachable):
        yield Finding(REACH, Severity.FAIL, each.hosts, each.reason, fix=each.hint, evidence=each.own_lines)


def _shell(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(mesh.SHELL).items():
        if found["noise"]:
            yield Finding(
                "reach.shell", Severity.FAIL, (host,),
                f"the login shell prints into the connection: {found['noise'][0][:120]!r}",
                fix=_INTERACTIVE,
                evidence=tuple(found["noise"]),
            )  # fmt: skip
        if found["seconds"] > SHELL_PATIENCE_S:
            yield Finding(
                "reach.shell", Severity.WARN, (host,),
                f"the login shell takes {found['seconds']:.1f} s before a command runs, expected under "
                f"{SHELL_PATIENCE_S:g}",
                fix=_INTERACTIVE,
            )  # fmt: skip


def _python(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(reach_readers.identity).items():
        version = tuple(int(part) for part in found["python"].split(".")[:2] if part.isdigit())
        if version < PYTHON_NEEDED:
            path = survey.cluster[host].agent_python
            yield Finding(
                "reach.python", Severity.FAIL, (host,), f"{path} is Python {found['python']}, expected 3.8 or newer",
                fix="install a newer one and name it in the inventory: pylaunch_agent_python=",
            )  # fmt: skip


def _hostname(survey: Survey) -> Iterable[Finding]:
    named: dict[str, dict[str, list[str]]] = {}
    for host, found in survey.measured(reach_readers.identity).items():
        named.setdefault(found["hostname"], {}).setdefault(found["network"], []).append(host)
    for name, machines in named.items():
        if len(machines) > 1:
            yield Finding(
                "reach.hostname", Severity.WARN, tuple(host for hosts in machines.values() for host in hosts),
                f"{len(machines)} machines call themselves {name}: NCCL distinguishes machines by name, among "
                "others, and logs cannot",
                fix="hostnamectl set-hostname NAME",
            )  # fmt: skip


def _names_asked(host: Host, wanted: Wanted) -> Mapping[str, Any]:
    return {**reach_readers.names.ask(_looked_up(host, wanted)), **reach_readers.identity.ask(None)}


def _looked_up(host: Host, wanted: Wanted) -> list[str]:
    """Return the names that `host` looks up: of the first host and of the next one, so each name is looked up."""
    hosts = list(wanted.peers)
    if host.name not in hosts:
        return []
    following = hosts[(hosts.index(host.name) + 1) % len(hosts)]
    peers = [name for name in dict.fromkeys((hosts[0], following)) if name != host.name]
    addresses = (wanted.peers[name] for name in peers)
    return list(dict.fromkeys((*peers, *(address for address in addresses if not is_address(address)))))


def _names(survey: Survey) -> Iterable[Finding]:
    identities = survey.measured(reach_readers.identity)
    addresses = {name: identity["addresses"] for name, identity in identities.items()}
    has = {host.name: {*addresses.get(host.name, ()), host.address, host.rank_address} for host in survey.cluster.hosts}
    owners: dict[str, list[Host]] = {}
    for host in survey.cluster.hosts:
        if host.name in identities:
            for name in dict.fromkeys((host.name, host.rank_address)):
                owners.setdefault(name, []).append(host)
    looked_up = survey.measured(reach_readers.names)
    for observer, found in looked_up.items():
        if found["unanswered"]:
            yield _unanswered(observer, found["unanswered"])
        if found["own"] not in found["unanswered"]:
            own = found["addresses"].get(found["own"])
            is_needed = observer in survey.wanted.listen_by_name
            yield from _own_name(observer, found["own"], own, has[observer], is_needed=is_needed)
    for observer in survey.cluster.names:
        resolved = looked_up[observer]["addresses"] if observer in looked_up else {}
        for name, addresses_ in resolved.items():
            for peer in owners.get(name, ()):
                if peer.name != observer:
                    yield from _peer_name(observer, peer, name, addresses_, has[peer.name])


def _unanswered(observer: str, names: list[str]) -> Finding:
    return Finding(
        "reach.names", Severity.UNKNOWN, (observer,),
        f"no answer within {reach_readers.LOOKUPS_S:g} s to the lookup of {', '.join(names)}",
        fix="check the name servers of {hosts}: cat /etc/resolv.conf",
    )  # fmt: skip


def _own_name(
    host: str, name: str, addresses: list[str] | None, has: set[str], *, is_needed: bool
) -> Iterable[Finding]:  # fmt: skip
    if addresses is None:
        text, severity = f"its own name {name} does not resolve on it", Severity.NOTE
    elif all(_is_loopback(address) for address in addresses):
        text, severity = f"its own name resolves to {addresses[0]}, where no other host can reach it", Severity.NOTE
    elif not _routable(addresses) & has:
        text = f"its own name {name} resolves to {', '.join(addresses)}, which it does not have"
        severity = Severity.WARN
    else:
        return
    if is_needed:
        severity, text = Severity.FAIL, f"{text}: ranks of JAX on CPUs listen there"
    elif severity is Severity.NOTE:
        text += ": start sets the interface of torch and NCCL, but JAX on CPU and MPI use the name"
    yield Finding("reach.names", severity, (host,), text, fix=HOST_BASELINE, role="host_baseline")


def _peer_name(
    observer: str, peer: Host, name: str, addresses: list[str] | None, has: set[str]
) -> Iterable[Finding]:  # fmt: skip
    is_needed = name == peer.rank_address
    severity = Severity.FAIL if is_needed else Severity.WARN
    if addresses is None:
        if not is_needed:
            return
        text = f"{name}, the address of {peer.name} for ranks, does not resolve here"
    elif all(_is_loopback(address) for address in addresses):
        text = f"{name} resolves to {addresses[0]} here, which is this host itself"
    elif not _routable(addresses) & has:
        known = ", ".join(sorted(address for address in has if is_address(address) and not _is_local(address)))
        text = f"{name} resolves to {', '.join(addresses)} here, and {peer.name} has {known}"
    else:
        return
    yield Finding("reach.names", severity, (observer,), text, fix=HOST_BASELINE, role="host_baseline")


def _is_local(address: str) -> bool:
    return _is_loopback(address) or ip_address(address.partition("%")[0]).is_link_local


def _is_loopback(address: str) -> bool:
    return ip_address(address.partition("%")[0]).is_loopback


def _routable(addresses: Iterable[str]) -> set[str]:
    return {address for address in addresses if not _is_loopback(address)}


CHECKS = (
    Check(
        REACH, "hosts answer over SSH",
        "Every action of pylaunch on a host uses SSH.",
        "the answer of OpenSSH; on a failure, each step is tried separately",
        Severity.FAIL, lambda host, wanted: {}, _ssh,
        at_start=AtStart.AGENT,
        at_start_why="if only the checks do not reach a host, that is printed",
    ),
    Check(
        "reach.shell", "the login shell prints nothing and is quick",
        "Output of rc files mixes with messages of the agent, and every command waits for them.",
        f"nothing printed; threshold: {SHELL_PATIENCE_S:g} s",
        Severity.FAIL, asks(mesh.SHELL), _shell,
        at_start=AtStart.AGENT,
    ),
    Check(
        "reach.python", "an interpreter for the agent",
        "The agent and the probe need Python 3.8 or newer on every host.",
        "threshold: 3.8", Severity.FAIL, asks(reach_readers.identity), _python,
        at_start=AtStart.AGENT,
    ),
    Check(
        "reach.hostname", "each machine has a different host name",
        "NCCL hashes the host name to find out which ranks share a machine.",
        "host names of all hosts; inventory hosts that are one machine count as one",
        Severity.WARN, asks(reach_readers.identity), _hostname,
    ),
    Check(
        "reach.names", "names resolve to the same hosts everywhere",
        "A rank that connects to a name, or sends its own name to others, must reach the same machine from every host.",
        "the addresses of each host, and those of the inventory. A host looks up its own name and those of the first "
        "and the next host",
        Severity.FAIL,
        _names_asked, _names,
        at_start=AtStart.AGENT,
        at_start_why="refuses a host name on the loopback for frameworks that listen there (JAX on CPUs)",
    ),
)  # fmt: skip
