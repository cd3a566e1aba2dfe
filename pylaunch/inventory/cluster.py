"""Read the hosts of a listing, with every error found in it. Pure.

`--limit` is an Ansible pattern of hosts and groups, with ranges: `gpu[01-04],storage` and `gpu[01-04]:storage` are
unions, `gpu*` and `gpu?` globs over hosts and groups, `!gpu01` excludes, and `&rack1` intersects. A pattern that only
excludes or intersects starts with all hosts.
"""

import difflib
import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import UsageError
from pylaunch.inventory import keys
from pylaunch.model.cluster import ENV_ROOT, NODE_ROOT, Cluster, Connection, Host, SshOptions
from pylaunch.model.hostset import expand, fold


@dataclass(frozen=True)
class InventoryGroup:
    """A group's own hosts and its child groups, both in inventory order."""

    hosts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listing:
    """An inventory as Ansible parsed it. Templates in values are not rendered."""

    groups: Mapping[str, InventoryGroup]
    variables: Mapping[str, Mapping[str, object]]
    """Per host, group variables merged in."""

    @classmethod
    def parse(cls, text: str) -> "Listing":
        """Parse the JSON that `ansible-inventory --list` prints."""
        answer: dict[str, Any] = json.loads(text)
        variables: dict[str, dict[str, object]] = answer.pop("_meta", {}).get("hostvars", {})
        groups = {
            name: InventoryGroup(tuple(body.get("hosts", ())), tuple(body.get("children", ())))
            for name, body in answer.items()
        }
        mentioned = [child for group in groups.values() for child in group.children]
        return cls({**{name: InventoryGroup() for name in mentioned}, **groups}, variables)

    def hosts_of(self, group: str) -> tuple[str, ...]:
        """Return all hosts in `group` and below it, in Ansible's order: own hosts first, then level by level."""
        found: dict[str, None] = {}
        level: Sequence[str] = (group,)
        seen = {group}
        while level:
            below: list[str] = []
            for name in level:
                found.update(dict.fromkeys(self.groups[name].hosts))
                below += [child for child in self.groups[name].children if child not in seen]
                seen.update(below)
            level = below
        return tuple(found)


_COMMAS = re.compile(r",(?![^\[]*\])")
_COLONS = re.compile(r":(?![^\[]*\])")
_SYNTAX = "hosts and groups, with ranges and patterns: --limit 'gpu[01-04]', --limit 'gpu*,!gpu03'"


def limited(cluster: Cluster, limit: str, groups: Mapping[str, Sequence[str]]) -> Cluster:
    """Return the hosts of `cluster` that match `limit`. Raises UsageError for names that match nothing."""
    there = set(cluster.names)
    choices = {group: inside for group, hosts in groups.items() if (inside := set(hosts) & there)}
    choices |= {name: {name} for name in cluster.names}
    found: dict[str, set[str]] = {"": set(), "!": set(), "&": set()}
    unknown: list[str] = []
    words = list(_words(limit, choices))
    kept = set(there)
    for sign, pattern in words:
        hosts, missing = _matched(limit, pattern, choices)
        unknown += missing
        found[sign] |= hosts
        if sign == "&":
            kept &= hosts
    if unknown or not words:
        near = difflib.get_close_matches((unknown or [limit])[0], choices, n=3)
        raise UsageError(
            f"--limit {limit}: not in the cluster: {fold(unknown) or 'no host named'}",
            hint=f"did you mean {' or '.join(near)}?" if near else f"the cluster is {fold(cluster.names)}",
        )
    start = found[""] if any(sign == "" for sign, _ in words) else there
    wanted = (start & kept) - found["!"]
    if not wanted:
        raise UsageError(f"--limit {limit}: no host matches", hint=f"the cluster is {fold(cluster.names)}")
    return cluster.only(wanted)


def _words(limit: str, choices: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Return sign ("", "!" or "&") and pattern of each part."""
    for piece in _COMMAS.split(limit):
        # A host of the cluster may have colons in its name, as IPv6 addresses do.
        whole = piece.strip().lstrip("!&") in choices
        for part in (piece,) if whole else _COLONS.split(piece):
            word = part.strip()
            sign = word[:1] if word[:1] in ("!", "&") else ""
            if pattern := word.removeprefix(sign):
                yield sign, pattern


def _matched(limit: str, pattern: str, choices: Mapping[str, set[str]]) -> tuple[set[str], list[str]]:
    """Return the hosts that match `pattern`, and the parts of it that match none."""
    if pattern in choices:
        return choices[pattern], []
    try:
        names = expand(pattern)
    except ValueError as error:
        raise UsageError(f"--limit {limit}: {error}", hint=_SYNTAX) from None
    hosts: set[str] = set()
    unknown = []
    for name in names:
        matching = [choice for choice in choices if fnmatchcase(choice, name)] if _is_glob(name) else [name]
        inside = [choices[choice] for choice in matching if choice in choices]
        hosts.update(*inside)
        if not inside:
            unknown.append(name)
    return hosts, unknown


def _is_glob(name: str) -> bool:
    return "*" in name or "?" in name


GROUP = "cluster"
"""The group whose hosts form the cluster. Without that group, all hosts do."""

SSH_PORT = 22
LOOPBACK = "127.0.0.1"

T = TypeVar("T")


@dataclass(frozen=True)
class Complaint:
    """An error in the variables of one host, with the key where there is one."""

    host: str
    message: str
    key: str | None = None


def group_in_use(listing: Listing) -> str:
    """Return the group whose hosts form the cluster."""
    return GROUP if GROUP in listing.groups else "all"


def read_hosts(listing: Listing) -> tuple[tuple[Host, ...], list[Complaint]]:
    """Return the hosts of the cluster in rank order, which are valid only without the other: all errors in them."""
    readers = [_HostReader(name, listing.variables.get(name, {})) for name in listing.hosts_of(group_in_use(listing))]
    hosts = [reader.host() for reader in readers]
    ranks = {reader.name: rank for reader in readers if (rank := reader.take("rank", keys.whole_number)) is not None}
    complaints = [complaint for reader in readers for complaint in reader.complaints]
    complaints += _shared_ranks(ranks) + _shared_addresses(hosts) + _loopback_among_others(hosts)
    # Hosts with a rank come first, in that order; the sort is stable, so the others keep the order of the inventory.
    hosts.sort(key=lambda host: (host.name not in ranks, ranks.get(host.name, 0)))
    return tuple(hosts), complaints


def with_loopback(cluster: Cluster) -> Cluster:
    """Return the cluster; if all its hosts are directories of this machine, those without an address of their own are
    on loopback, where they reach each other."""
    if any(host.connection is not Connection.LOCAL for host in cluster.hosts):
        return cluster
    hosts = (replace(host, address=LOOPBACK) if host.address == host.name else host for host in cluster.hosts)
    return replace(cluster, hosts=tuple(hosts))


class _HostReader:
    """Reads the variables of one host and collects the errors in them."""

    def __init__(self, name: str, variables: Mapping[str, object]) -> None:
        self.name = name
        self.complaints: list[Complaint] = []
        self._variables = variables
        if (message := keys.complaint_about_host(name)) is not None:
            self.complaints.append(Complaint(name, message))
        for variable in variables:
            if (message := keys.complaint_about_name(variable)) is not None:
                self.complaints.append(Complaint(name, message, variable))

    def take(self, key: str, reader: Callable[[object], T]) -> T | None:
        """Return the value of `key`; None when it is not set or invalid."""
        spelled = [name for name in (key, *_other_spellings(key)) if name in self._variables]
        if not spelled:
            return None
        value = self._variables[spelled[0]]
        if any(self._variables[name] != value for name in spelled[1:]):
            self._complain(spelled[1], f"contradicts {spelled[0]}, which is another name for it")
        try:
            return reader(resolved(value, self.name, self._variables))
        except ValueError as error:
            self._complain(spelled[0], str(error))
            return None

    def host(self) -> Host:
        """Return the host that these variables describe."""
        chosen = self.take("ansible_python_interpreter", keys.interpreter)
        return Host(
            name=self.name,
            address=self.take("ansible_host", keys.address) or self.name,
            connection=self.take("ansible_connection", keys.connection) or Connection.SSH,
            ssh=SshOptions(
                user=self.take("ansible_user", keys.word),
                port=self.take("ansible_port", keys.port),
                private_key=self.take("ansible_ssh_private_key_file", keys.text),
                common_args=(
                    *(self.take("ansible_ssh_common_args", keys.arguments) or ()),
                    *(self.take("ansible_ssh_extra_args", keys.arguments) or ()),
                ),
            ),
            devices=self._devices(),
            interface=self.take("interface", keys.interface),
            fabric_address=self.take("fabric_address", keys.word),
            topology=self.take("topology", keys.topology) or (),
            python=self.take("pylaunch_python", keys.path),
            agent_python=self.take("pylaunch_agent_python", keys.path) or chosen or Host.agent_python,
            node_root=self.take("pylaunch_node_root", keys.path) or NODE_ROOT,
            env_root=self.take("pylaunch_env_root", keys.path) or ENV_ROOT,
        )

    def _devices(self) -> tuple[int, ...]:
        """Return `devices` if set, else all of `gpus`."""
        count = self.take("gpus", keys.whole_number)
        named = self.take("devices", keys.devices)
        if named is None:
            return tuple(range(count or 0))
        if count is not None and (absent := [index for index in named if index >= count]):
            self._complain("devices", f"device {absent[0]} does not exist: gpus={count} means 0 to {count - 1}")
        return named

    def _complain(self, key: str, message: str) -> None:
        self.complaints.append(Complaint(self.name, message, key))


def _other_spellings(key: str) -> Sequence[str]:
    return [alias for alias, meant in keys.ALIASES.items() if meant == key]


def _shared_ranks(ranks: Mapping[str, int]) -> list[Complaint]:
    owners = _owners({host: (str(rank),) for host, rank in ranks.items()})
    return [
        Complaint(hosts[-1], f"rank {rank} is also the rank of {fold(hosts[:-1])}", "rank")
        for rank, hosts in owners.items()
        if len(hosts) > 1
    ]


def _shared_addresses(hosts: Sequence[Host]) -> list[Complaint]:
    """Return hosts that are the same machine as another: each of its ranks would start twice."""
    complaints = []
    for names in _owners({host.name: _identity(host) for host in hosts}).values():
        if len(names) > 1:
            host = next(host for host in hosts if host.name == names[-1])
            key = "ansible_host" if host.address != host.name else None
            message = f"has the same address as {fold(names[:-1])}: {host.address}"
            if host.connection is Connection.LOCAL:
                others = fold(names[:-1])
                message = f"is this machine, like {others}: set a different pylaunch_node_root for each of them"
            complaints.append(Complaint(host.name, message, key))
    for address, names in _owners({h.name: (h.fabric_address,) for h in hosts if h.fabric_address}).items():
        if len(names) > 1 and not _is_loopback(address):
            message = f"has the same address as {fold(names[:-1])}: {address}"
            complaints.append(Complaint(names[-1], message, "fabric_address"))
    return complaints


def _identity(host: Host) -> tuple[str, ...]:
    if host.connection is Connection.LOCAL:
        return ("local", host.node_root)
    return (host.address, str(host.ssh.port or SSH_PORT), *host.ssh.common_args)


def _owners(values: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for host, value in values.items():
        owners.setdefault(" ".join(value), []).append(host)
    return owners


def _loopback_among_others(hosts: Sequence[Host]) -> list[Complaint]:
    """Return hosts with a loopback address, which works only when all nodes are this machine."""
    hosts = with_loopback(Cluster(tuple(hosts))).hosts
    on_loopback = [host for host in hosts if _is_loopback(host.rank_address)]
    if len(on_loopback) == len(hosts):
        return []
    return [
        Complaint(
            host.name,
            f"the other hosts cannot reach it at {host.rank_address}; set fabric_address",
            "fabric_address" if host.fabric_address else "ansible_host" if host.address != host.name else None,
        )
        for host in on_loopback
    ]


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


DEPTH = 8
"""Number of times that rendering may yield another template."""


def resolved(value: object, host: str, variables: Mapping[str, object]) -> object:
    """Return `value`, or its rendered text when it is a template.

    Raises ValueError with the reason for a template that cannot be rendered without a play.
    """
    if not _is_template(value):
        return value
    from jinja2 import StrictUndefined, TemplateError  # noqa: PLC0415 - 15 ms that few inventories need
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
    known = {"inventory_hostname": host, "inventory_hostname_short": host.split(".")[0], **variables}
    known.setdefault("ansible_host", host)
    text = str(value)
    for _ in range(DEPTH):
        try:
            text = environment.from_string(text).render(known)
        except (TemplateError, TypeError, ArithmeticError) as error:
            raise ValueError(
                f"cannot be rendered before a play runs: {error} in {value!r}; "
                "write the value, or refer to variables of the host alone"
            ) from None
        if not _is_template(text):
            return text
    raise ValueError(f"refers to itself: {value!r}")


def _is_template(value: object) -> bool:
    return isinstance(value, str) and ("{{" in value or "{%" in value)
