"""Order of hosts by their location in the network. Pure."""

from collections.abc import Iterable, Sequence

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Host
from pylaunch.model.hostset import fold


def by_topology(hosts: Sequence[Host]) -> tuple[Host, ...]:
    """`hosts` with those of one rack together, in it those of one switch, and so on.

    Racks follow each other as their first hosts do in `hosts`, and so do switches and the hosts of a switch: the first
    host stays the first. Raises UsageError that names the hosts of which the inventory does not say where they stand.
    """
    if missing := [host.name for host in hosts if not host.topology]:
        raise UsageError(
            f"--rank-order topology: the inventory does not say where {fold(missing)} {_stand(missing)}",
            hint="topology=rack1/switch3 in the inventory, or --rank-order inventory",
        )
    depth = max((len(host.topology) for host in hosts), default=0)
    places: dict[tuple[str, ...], int] = {}
    for host in hosts:
        for prefix in _prefixes(host, depth):
            places.setdefault(prefix, len(places))
    return tuple(sorted(hosts, key=lambda host: [places[prefix] for prefix in _prefixes(host, depth)]))


def groups(hosts: Iterable[Host]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the names of `hosts` by location, "rack1/switch3", both in the order of `hosts`."""
    found: dict[str, list[str]] = {}
    for host in hosts:
        found.setdefault("/".join(host.topology), []).append(host.name)
    return tuple((place, tuple(names)) for place, names in found.items())


def _prefixes(host: Host, depth: int) -> Iterable[tuple[str, ...]]:
    """Return the location of `host` at each depth; missing parts are one nameless switch."""
    whole = host.topology + ("",) * (depth - len(host.topology))
    return (whole[:length] for length in range(1, depth + 1))


def _stand(names: Sequence[str]) -> str:
    return "stands" if len(names) == 1 else "stand"
