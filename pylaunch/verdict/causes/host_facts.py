"""Facts of hosts that failures and hangs share: broken GPUs, links that are down, unanswered packets. Pure.

A fact that several hosts share names none of them. A path involves two hosts: it names both only if both report
unanswered packets, and one only if all of several paths have it in common.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pylaunch.base import kernel_log
from pylaunch.base.dataclass import dataclass
from pylaunch.model.hostset import fold
from pylaunch.protocol.node_evidence import HostEvidence, KernelEvent, StuckConnection
from pylaunch.verdict.causes.xid import XidKind, explain

SILENT_RETRANSMITS = 3
"""Retransmissions in a row that show a silent path: together they take more than a second."""

SURE_RETRANSMITS = 5
"""Retransmissions in a row that take six seconds: no passing loss of packets."""

MOST_LINES = 4


@dataclass(frozen=True)
class HostEvent:
    """A kernel message of a host."""

    host: str
    message: KernelEvent
    when: str = ""
    """Its distance to the first failure: ", 2 s before the first failure"."""

    before_s: float = 0.0
    """Seconds before the first failure; negative for later ones."""

    is_consequence: bool = False

    def __str__(self) -> str:
        return f"{self.host} kernel{self.when}: {self.message.text}"


@dataclass(frozen=True)
class HostFact:
    """Trouble of one or several hosts."""

    kind: str
    """Kind of a cause (`cause_kinds.KINDS`) and of a hang (`HangKind`)."""

    text: str
    hosts: tuple[str, ...]
    lines: tuple[str, ...]
    named: tuple[str, ...]
    """Host that the fact names, or both ends of a path; () if it names nobody."""

    is_proven: bool = True
    """Connections show the same, or retransmissions have lasted."""

    device: str = ""


@dataclass(frozen=True)
class UnansweredConnection:
    """A connection of `host` to another host of the run, as `host` reports it."""

    host: str
    peer: str
    connection: StuckConnection

    @property
    def ports(self) -> str:
        """Both ends: "n1 port 41022 to n3 port 29500"."""
        return f"{self.host} port {self.connection.local_port} to {self.peer} port {self.connection.peer_port}"

    def __str__(self) -> str:
        each = self.connection
        who = f"rank {each.rank} on {self.host}" if each.rank is not None else self.host
        return (
            f"{who} port {each.local_port}: {each.send_queue} bytes to {self.peer} port {each.peer_port} are not "
            f"acknowledged after {each.retransmits} retransmissions"
        )


def unanswered_connections(
    hosts: Iterable[HostEvidence], addresses: Mapping[str, str] | None = None
) -> Iterator[UnansweredConnection]:
    """Yield the connections to other hosts of the run whose packets the peer's kernel does not acknowledge.

    `addresses`: hosts of addresses that are known without a report of the host. An address that several hosts report
    is that of none.
    """
    facts = tuple(hosts)
    claims: dict[str, set[str]] = {}
    for each in facts:
        for address in each.addresses:
            claims.setdefault(address, set()).add(each.host)
    owners = {address: next(iter(names)) for address, names in claims.items() if len(names) == 1}
    owners |= addresses or {}
    for each in facts:
        for connection in each.stuck:
            peer = owners.get(connection.peer)
            if peer is not None and peer != each.host and connection.retransmits >= SILENT_RETRANSMITS:
                yield UnansweredConnection(each.host, peer, connection)


def path_fact(found: Iterable[UnansweredConnection]) -> HostFact | None:
    """Return what the connections have in common, the longest without an answer first; None without any."""
    ordered = sorted(found, key=lambda each: (-each.connection.retransmits, each.host, each.peer, str(each)))
    if not ordered:
        return None
    edges = {frozenset((each.host, each.peer)) for each in ordered}
    hosts = tuple(sorted({host for edge in edges for host in edge}))
    common = [host for host in hosts if all(host in edge for edge in edges)]
    is_proven, named = ordered[0].connection.retransmits >= SURE_RETRANSMITS, tuple[str, ...]()
    text = f"packets between hosts {fold(hosts)} get no answer"
    if len(edges) == 1:
        text = f"packets between {hosts[0]} and {hosts[1]} get no answer: a firewall or a route, {ordered[0].ports}"
        if {each.host for each in ordered} == {*hosts}:
            is_proven, named = True, hosts
    elif len(common) == 1:
        named = (common[0],)
        text = f"{common[0]} is cut off from {fold(host for host in hosts if host != common[0])}"
    return HostFact("path-blocked", text, hosts, tuple(map(str, ordered))[:MOST_LINES], named, is_proven)


def link_fact(
    found: Sequence[HostEvent], unanswered: Iterable[UnansweredConnection], silent: Collection[str] = ()
) -> HostFact | None:
    """Return the links that went down; None without any. `silent`: hosts that do not answer."""
    down = [each for each in found if each.message.kind == kernel_log.LINK_DOWN]
    if not down:
        return None
    hosts, devices = _hosts(down), sorted({each.message.device for each in down})
    ends = {end for each in unanswered for end in (each.host, each.peer)}
    text = f"network link down on {fold(hosts)} ({', '.join(devices[:3])})"
    is_proven = not (ends | {*silent}).isdisjoint(hosts)
    return HostFact("link", text, hosts, lines_of(down), hosts if len(hosts) == 1 else (), is_proven, devices[0])


def gpu_fact(found: Sequence[HostEvent]) -> HostFact | None:
    """Return the errors of GPUs, and of switches between them, that `found` holds; None without any."""
    if not found:
        return None
    hosts, first = _hosts(found), min(found, key=lambda each: each.message.time)
    code = first.message.code or 0
    is_switch = first.message.kind == kernel_log.SXID
    what = f"SXid {code}" if is_switch else f"Xid {code}, {explain(code).name}"
    text = f"GPU error on {first.host}: {what} (PCI {first.message.device})"
    if len(hosts) > 1:
        text = f"GPU errors on {fold(hosts)}, first on {first.host}: {what}"
    return HostFact("gpu", text, hosts, lines_of(found), hosts if len(hosts) == 1 else ())


def is_broken_gpu(message: KernelEvent) -> bool:
    """Return True for an error after which a GPU, or a switch between GPUs, cannot be trusted."""
    if message.kind == kernel_log.SXID:
        return "Fatal" in message.text
    return message.kind == kernel_log.XID and explain(message.code or 0).kind is XidKind.DAMAGED


def lines_of(found: Iterable[HostEvent]) -> tuple[str, ...]:
    """Return the first kernel messages as lines of evidence."""
    return tuple(map(str, found))[:MOST_LINES]


def _hosts(found: Iterable[HostEvent]) -> tuple[str, ...]:
    return tuple(sorted({each.host for each in found}))
