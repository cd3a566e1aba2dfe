"""Facts that hosts report, as hangs and failures judge them: connections that nobody answers, broken GPUs. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from pylaunch.base import kernel_log
from pylaunch.base.dataclass import dataclass
from pylaunch.model.hostset import fold
from pylaunch.protocol.node_evidence import HostEvidence, KernelEvent, StuckConnection
from pylaunch.verdict.causes.xid import XidKind, explain

SILENT_RETRANSMITS = 3
"""Retransmissions in a row that show a silent path: together they take more than a second."""


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


@dataclass(frozen=True)
class SilentPaths:
    """Paths between hosts on which packets are not answered."""

    lines: tuple[str, ...]
    """Connections that show it, the longest without an answer first."""

    text: str
    """In words, without a name at fault: "packets between n1 and n2 get no answer"."""

    hosts: tuple[str, ...]
    cut_off: str = ""
    """The one host that all of several paths have in common; "" without one."""

    longest: UnansweredConnection | None = None
    is_one_pair: bool = False
    reported_by: tuple[str, ...] = ()


def silent_paths(found: Iterable[UnansweredConnection]) -> SilentPaths | None:
    """Return what the connections have in common; None without any."""
    ordered = sorted(found, key=lambda each: (-each.connection.retransmits, each.host, each.peer, str(each)))
    if not ordered:
        return None
    edges = {frozenset((each.host, each.peer)) for each in ordered}
    hosts = sorted({host for edge in edges for host in edge})
    common = [host for host in hosts if all(host in edge for edge in edges)]
    cut_off = common[0] if len(edges) > 1 and len(common) == 1 else ""
    if cut_off:
        text = f"{cut_off} is cut off from {fold(host for host in hosts if host != cut_off)}"
    elif len(edges) == 1:
        text = f"packets between {hosts[0]} and {hosts[1]} get no answer"
    else:
        text = f"packets between hosts {fold(hosts)} get no answer"
    return SilentPaths(
        tuple(map(str, ordered)), text, tuple(hosts), cut_off, ordered[0], len(edges) == 1,
        tuple(sorted({each.host for each in ordered})),
    )  # fmt: skip


def is_broken_gpu(message: KernelEvent) -> bool:
    """Return True for an error after which a GPU, or a switch between GPUs, cannot be trusted."""
    if message.kind == kernel_log.SXID:
        return "Fatal" in message.text
    return message.kind == kernel_log.XID and explain(message.code or 0).kind is XidKind.DAMAGED


def shown_gpu_error(message: KernelEvent) -> str:
    """Return "Xid 79, GPU has fallen off the bus"."""
    if message.kind == kernel_log.SXID:
        return f"SXid {message.code}"
    return f"Xid {message.code}, {explain(message.code or 0).name}"
