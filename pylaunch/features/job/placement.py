"""Place the replicas of all roles on hosts, and say how ranks find each other. Pure."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.errors import UsageError
from pylaunch.features.job.job_file import JobFile, JobRole
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.hostset import fold


@dataclass(frozen=True)
class Part:
    """One replica of a role: a run of its own."""

    role: JobRole
    replica: int
    cluster: Cluster
    """Its hosts with the devices that it may use."""

    ports: Mapping[str, int] = field(default_factory=dict)
    """Port on its first host by name."""

    @property
    def name(self) -> str:
        """ "trainer", or "rollout.0" for a role with several replicas."""
        return self.role.name if self.role.replicas == 1 else f"{self.role.name}.{self.replica}"

    @property
    def first(self) -> Host:
        """The host whose address and ports are the endpoint of the replica."""
        return self.cluster.hosts[0]

    def endpoint(self, port: str) -> str:
        """ "10.0.0.2:8000"."""
        address = self.first.rank_address
        return f"{f'[{address}]' if ':' in address else address}:{self.ports[port]}"


def placed(job: JobFile, cluster: Cluster, named: Callable[[str], Sequence[str]]) -> tuple[Part, ...]:
    """Return the parts of `job` in the order of the file, without ports. `named` returns the hosts of a pattern.

    A role without `nodes` takes the hosts that the others leave. Raises UsageError where there are too few hosts.
    """
    placer = _Placer(cluster)
    counted = sorted(job.roles, key=lambda role: role.nodes is None)
    found = {role.name: placer.parts(role, named) for role in counted}
    return tuple(part for role in job.roles for part in found[role.name])


def _fewer(role: JobRole, replica: int, there: int) -> str:
    """Return the option that makes `role` small enough for the hosts that it finds."""
    if there:
        return f"--set {role.name}.nodes={there}"
    return (
        f"--set {role.name}.replicas={replica}"
        if replica
        else "fewer nodes or replicas of other roles: --set ROLE.nodes=1"
    )


class _Placer:
    """Hosts and devices that are taken so far."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._parts: dict[str, list[JobRole]] = {name: [] for name in cluster.names}
        """Roles on each host."""

        self._free = {host.name: host.devices for host in cluster.hosts}

    def parts(self, role: JobRole, named: Callable[[str], Sequence[str]]) -> tuple[Part, ...]:
        """Return the replicas of `role`, and take their hosts."""
        pool = self._cluster.names if role.hosts is None else tuple(named(role.hosts))
        nodes = max(len(self._open(role, pool)) // role.replicas, 1) if role.nodes is None else role.nodes
        return tuple(Part(role, each, self._taken(role, each, nodes, pool)) for each in range(role.replicas))

    def _taken(self, role: JobRole, replica: int, nodes: int, pool: Sequence[str]) -> Cluster:
        there = self._open(role, pool)
        if len(there) < nodes:
            owners = {name: ", ".join(dict.fromkeys(each.name for each in self._parts[name])) for name in pool}
            raise UsageError(
                f"[roles.{role.name}] needs {role.replicas * nodes} of the hosts {fold(pool)}: "
                f"replica {replica} needs {nodes} and finds {len(there)}",
                evidence=[f"{name}: {owner}" for name, owner in owners.items() if owner],
                hint=f"{_fewer(role, replica, len(there))}, or shared = true in roles that may be on one host",
            )
        # Roles that share hosts spread over them.
        chosen = sorted(there, key=lambda name: (len(self._parts[name]), pool.index(name)))[:nodes]
        return replace(self._cluster, hosts=tuple(self._host(role, name) for name in sorted(chosen, key=pool.index)))

    def _open(self, role: JobRole, pool: Sequence[str]) -> list[str]:
        """Return the hosts of `pool` that can have a replica of `role`."""
        return [
            name
            for name in pool
            if not self._parts[name]
            or (role.shared and all(other.shared for other in self._parts[name]) and self._has_devices(role, name))
        ]

    def _has_devices(self, role: JobRole, name: str) -> bool:
        takes_none = not role.devices or not self._cluster[name].devices
        return takes_none or len(self._free[name]) >= max(ranks_on_host(role), 1)

    def _host(self, role: JobRole, name: str) -> Host:
        host, count = self._cluster[name], ranks_on_host(role)
        self._parts[name].append(role)
        if not role.devices:
            return replace(host, devices=(), withholds_devices=bool(host.devices))
        if not role.shared or not host.devices:
            return host
        if not count:
            raise UsageError(
                f"[roles.{role.name}] is shared, and {name} has devices: how many of them it uses is missing",
                hint="nproc-per-node = 1, or devices = false",
            )
        mine, self._free[name] = self._free[name][:count], self._free[name][count:]
        return replace(host, devices=mine)


def ranks_on_host(role: JobRole) -> int:
    """Return the number of ranks on each host as the file says it; 0 for auto."""
    value = str(role.options.get("nproc_per_node", ""))
    return int(value) if value.isdecimal() else 0


def with_ports(parts: Iterable[Part], free: Mapping[str, Sequence[int]]) -> tuple[Part, ...]:
    """Return `parts` with a number for each port; `free` are free ports by address, of which each is used once.

    Raises UsageError where no free port is left.
    """
    left = {address: list(ports) for address, ports in free.items()}
    found = []
    for part in parts:
        there = left.get(part.first.rank_address, [])
        if len(there) < len(part.role.ports):
            raise UsageError(f"{part.first.name} has too few free ports for {part.name}")
        found.append(replace(part, ports={name: there.pop(0) for name in part.role.ports}))
    return tuple(found)


def places(parts: Sequence[Part]) -> dict[str, str]:
    """Return the values of {roles.…} for the words of all parts: hosts, addresses and endpoints."""
    found: dict[str, str] = {}
    for name, same in _by_role(parts).items():
        addresses = [host.rank_address for part in same for host in part.cluster.hosts]
        found[f"roles.{name}.hosts"] = ",".join(host for part in same for host in part.cluster.names)
        found[f"roles.{name}.addresses"] = ",".join(addresses)
        found[f"roles.{name}.address"] = addresses[0]
        for port in reversed(tuple(same[0].ports)):  # The first one is also that of the words without a name.
            endpoints = [part.endpoint(port) for part in same]
            for ending in (f".{port}", ""):
                found[f"roles.{name}.endpoints{ending}"] = ",".join(endpoints)
                found[f"roles.{name}.endpoint{ending}"] = endpoints[0]
    return found


def own_places(part: Part, job: str) -> dict[str, str]:
    """Return the values of {replica}, {ports.…} and others for the words of `part`."""
    return {
        "job": job,
        "role": part.role.name,
        "replica": str(part.replica),
        "replicas": str(part.role.replicas),
        **{f"ports.{name}": str(number) for name, number in part.ports.items()},
    }


def environment(part: Part, parts: Sequence[Part], job: str) -> dict[str, str]:
    """Return the variables of the ranks of `part`: its place in the job, and where all roles are."""
    roles = {
        name: {
            "hosts": [host.rank_address for each in same for host in each.cluster.hosts],
            "ports": {port: [each.endpoint(port) for each in same] for port in same[0].ports},
        }
        for name, same in _by_role(parts).items()
    }
    return {
        "PYLAUNCH_JOB": job,
        "PYLAUNCH_ROLE": part.role.name,
        "PYLAUNCH_REPLICA": str(part.replica),
        "PYLAUNCH_REPLICAS": str(part.role.replicas),
        "PYLAUNCH_ROLES": json.dumps(roles, separators=(",", ":")),
    }


def _by_role(parts: Sequence[Part]) -> dict[str, list[Part]]:
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(part.role.name, []).append(part)
    return found
