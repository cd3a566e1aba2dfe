"""TCP connections between hosts whose packets nobody acknowledges, from the facts of the hosts. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.protocol.node_evidence import HostEvidence, StuckConnection

SILENT_RETRANSMITS = 3
"""Retransmissions in a row that show a silent path: together they take more than a second."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class UnansweredConnection:
    """A connection of `host` to another host of the run, as `host` reports it."""

    host: str
    peer: str
    connection: StuckConnection

    @property
    def ports(self) -> str:
        """Both ends: "n1 port 41022 to n3 port 29500"."""
        port = f" port {self.connection.local_port}" if self.connection.local_port else ""
        return f"{self.host}{port} to {self.peer} port {self.connection.peer_port}"

    def __str__(self) -> str:
        each = self.connection
        who = f"rank {each.rank} on {self.host}" if each.rank is not None else self.host
        port = f" port {each.local_port}" if each.local_port else ""
        return (
            f"{who}{port}: {each.send_queue} bytes to {self.peer} port {each.peer_port} are not acknowledged "
            f"after {each.retransmits} retransmissions"
        )


def address_owners(hosts: Iterable[HostEvidence]) -> dict[str, str]:
    """Return the host of each address, without addresses that several hosts have."""
    found: dict[str, set[str]] = {}
    for each in hosts:
        for address in each.addresses:
            found.setdefault(address, set()).add(each.host)
    return {address: next(iter(names)) for address, names in found.items() if len(names) == 1}


def unanswered_connections(
    hosts: Iterable[HostEvidence], addresses: Mapping[str, str] | None = None
) -> Iterator[UnansweredConnection]:
    """Yield the connections to other hosts of the run whose packets the peer's kernel does not acknowledge.

    `addresses`: hosts of addresses that are known without a report of the host.
    """
    facts = tuple(hosts)
    owners = {**address_owners(facts), **(addresses or {})}
    for each in facts:
        for connection in each.stuck:
            peer = owners.get(connection.peer)
            if peer is not None and peer != each.host and connection.retransmits >= SILENT_RETRANSMITS:
                yield UnansweredConnection(each.host, peer, connection)


def silent_pairs(hosts: Iterable[HostEvidence]) -> dict[Pair, list[str]]:
    """Return the pairs of hosts whose packets are not answered, with the lines that show it."""
    found: dict[Pair, list[str]] = {}
    for each in unanswered_connections(hosts):
        found.setdefault((each.host, each.peer), []).append(str(each))
    return {pair: sorted(lines) for pair, lines in sorted(found.items())}
