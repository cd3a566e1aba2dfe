"""Values of an inventory, chosen from what was found on its hosts, each with its reason. Pure."""

import ipaddress
import re
from collections.abc import Collection, Mapping, Sequence

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.inventory import keys
from pylaunch.model.cluster import ENV_ROOT, Host
from pylaunch.model.hostset import alike, fold, is_address


@dataclass(frozen=True)
class FoundRoute:
    """The way of one host to the rank address of a peer."""

    peer: str
    interface: str
    why: str = ""
    """Reason why there is no way."""


@dataclass(frozen=True)
class FoundHost:
    """One host; empty or None for what could not be read."""

    host: Host
    hostname: str = ""
    network: str = ""
    """Equal for hosts that are the same machine."""

    addresses: tuple[str, ...] = ()
    resolves: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Addresses to which this host resolves the names of all hosts."""

    system: str = ""
    gpus: int | None = None
    cards: tuple[str, ...] = ()
    """Models of the devices that answer nvidia-smi."""

    frameworks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Frameworks for ranks of the interpreters that exist, by path: "torch 2.6.0"."""


PROVISIONED = f"{ENV_ROOT}/current/bin/python"
"""Interpreter of the environment that `pylaunch provision` builds."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")


@dataclass(frozen=True)
class ProposedValue:
    """One key of the inventory with its values by host, and the lines that say why."""

    key: str
    values: Mapping[str, str] = field(default_factory=dict)
    """Hosts without an entry have no value."""

    why: tuple[str, ...] = ()


_GROUPS = frozenset({"all", "ungrouped", "cluster", "localhost"})
"""Names that mean something else in an inventory."""


def named_by_hostname(found: Sequence[FoundHost], named: Collection[str]) -> dict[str, str]:
    """Return new names for hosts that were named by an address: their own, where these are valid and differ.

    `named` are the names of all hosts, also of those that could not be examined.
    """
    own = {each.host.name: each.hostname.partition(".")[0] for each in found if is_address(each.host.name)}
    taken = [*own.values(), *(name for name in named if name not in own)]
    return {
        name: new
        for name, new in own.items()
        if _NAME.fullmatch(new) and new.lower() not in _GROUPS and taken.count(new) == 1
    }


def same_machines(found: Sequence[FoundHost]) -> dict[str, str]:
    """Return hosts that are the same machine as one before them, with its name."""
    first: dict[str, str] = {}
    return {
        each.host.name: first[each.network]
        for each in found
        if each.network and first.setdefault(each.network, each.host.name) != each.host.name
    }


def rank_addresses(found: Sequence[FoundHost], reached_at: Mapping[str, str]) -> ProposedValue:
    """Return fabric_address= of each host whose address the other hosts cannot use.

    `reached_at` has the addresses that OpenSSH connects to, by host.
    """
    unresolved = [each for each in found if not _is_usable(each, found)]
    values = {each.host.name: address for each in unresolved if (address := _own_address(each, reached_at))}
    if not unresolved:
        return ProposedValue("fabric_address")
    why = f"fabric_address: other hosts do not resolve the name of {fold(each.host.name for each in unresolved)} to it."
    missing = [each.host.name for each in unresolved if each.host.name not in values]
    hint = (f"No address was found for {fold(missing)}: set fabric_address.",) if missing else ()
    return ProposedValue("fabric_address", values, (why, *hint))


def _is_usable(host: FoundHost, found: Sequence[FoundHost]) -> bool:
    """Return whether the address of `host` leads all others to it."""
    if is_address(host.host.address):
        return host.host.address in host.addresses
    others = [each.resolves.get(host.host.address, ()) for each in found if each is not host]
    return all(any(address in host.addresses and _is_global(address) for address in each) for each in others)


def _own_address(host: FoundHost, reached_at: Mapping[str, str]) -> str:
    reached = reached_at.get(host.host.name, "")
    candidates = [each for each in host.addresses if _is_global(each)]
    if reached in candidates:
        return reached
    return next((each for each in sorted(candidates, key=lambda address: ":" in address)), "")


def _is_global(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if str(parsed) != address or "%" in address:  # The zone of an IPv6 address may be any text.
        return False
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified or parsed.is_multicast)


def devices(found: Sequence[FoundHost]) -> ProposedValue:
    """Return gpus= of each host."""
    counts = {each.host.name: len(each.cards) or each.gpus for each in found}
    texts = alike({name: [_devices_text(count)] for name, count in counts.items()})
    why = tuple(f"gpus: {who}: {text}." for who, text in texts)
    return ProposedValue("gpus", {name: str(count) for name, count in counts.items() if count}, why)


def _devices_text(count: int | None) -> str:
    if count is None:
        return "the devices could not be read, so runs compute on the CPU"
    return f"{count} NVIDIA devices answer" if count else "no NVIDIA device, so runs compute on the CPU"


def interfaces(found: Sequence[FoundHost], routes: Mapping[str, Sequence[FoundRoute]]) -> ProposedValue:
    """Return interface= of each host: the one of all its routes to the others."""
    values: dict[str, str] = {}
    reasons: dict[str, list[str]] = {}
    for host in found:
        name = host.host.name
        ways = routes.get(name, ())
        if len(found) == 1:
            continue
        if not ways:
            reasons[name] = ["the routes to the other hosts could not be read"]
            continue
        lost = [way for way in ways if way.why or not way.interface]
        names = sorted({way.interface for way in ways if way.interface and not way.why})
        if lost:
            reasons[name] = [f"no way to {lost[0].peer}: {lost[0].why or 'its interface is unknown'}"]
        elif len(names) > 1:
            reasons[name] = [f"peers are reached over {', '.join(names)}: set the one that ranks use"]
        elif names[0] == "lo" or not _is_interface(names[0]):
            reasons[name] = [f"peers are reached over {names[0]}, which ranks of other hosts cannot use"]
        else:
            values[name] = names[0]
            reasons[name] = [f"all peers are reached over {names[0]}"]
    return ProposedValue("interface", values, tuple(f"interface: {who}: {text}." for who, text in alike(reasons)))


def _is_interface(name: str) -> bool:
    try:
        return keys.interface(name) == name and re.fullmatch(r"[\w.:@-]+", name) is not None
    except ValueError:
        return False


def interpreter(found: Sequence[FoundHost], candidates: Sequence[str]) -> ProposedValue:
    """Return pylaunch_python=: the first of `candidates` that has a framework on all hosts."""
    for path in candidates:
        if all(each.frameworks.get(path) for each in found):
            texts = alike({each.host.name: [", ".join(each.frameworks[path])] for each in found})
            why = tuple(f"pylaunch_python: {path} has {text} on {who}." for who, text in texts)
            values = {} if path == PROVISIONED else {each.host.name: path for each in found}
            return ProposedValue("pylaunch_python", values, why)
    if is_provisioned(found):
        return ProposedValue(
            "pylaunch_python", {}, ("pylaunch_python: ranks use the environment of pylaunch provision.",)
        )
    why = (
        f"pylaunch_python: no environment with torch or jax is on all hosts (looked at {', '.join(candidates)}).",
        "pylaunch provision builds one; or set the path of your own.",
    )
    return ProposedValue("pylaunch_python", {}, why)


def is_provisioned(found: Sequence[FoundHost]) -> bool:
    """Return whether all hosts have the environment of `pylaunch provision`."""
    return all(PROVISIONED in each.frameworks for each in found)


def summary_of(host: FoundHost) -> str:
    """Return system and devices of a host in one line."""
    models = [f"{host.cards.count(each)} x {each}" for each in dict.fromkeys(host.cards) if each]
    return ", ".join(filter(None, (host.system, *models))) or "nothing is known"


def with_names(found: Sequence[FoundHost], names: Mapping[str, str]) -> tuple[FoundHost, ...]:
    """Return the hosts under new names, by old ones; the address stays."""
    return tuple(
        replace(each, host=replace(each.host, name=names.get(each.host.name, each.host.name))) for each in found
    )
