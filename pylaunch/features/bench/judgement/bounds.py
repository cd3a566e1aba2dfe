"""Bounds that the hardware sets to a bandwidth, and the share of the tightest that was reached. Pure.

Rates are GB/s (10^9 bytes/s) in one direction.
"""

from collections.abc import Iterable, Mapping

from pylaunch.base.dataclass import dataclass, field
from pylaunch.features.bench.judgement.sweep import Operation

HEADERS = 52
"""Bytes of IPv4 and TCP headers with timestamps in each packet."""

FRAME = 38
"""Bytes of Ethernet around each packet: header, checksum, preamble, gap."""

LANES = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""PCIe generation → GB/s of one lane after its encoding (PCI-SIG)."""

LEAST_SIZE = {"nccl": 512 << 20}
USUAL_LEAST_SIZE = 16 << 20
"""Smaller payloads do not reach the bandwidth of healthy hardware."""

ABOVE = 1.05
"""A result above the bound by more shows that the reported speed is not that of the link: a virtual interface."""


@dataclass(frozen=True)
class Wire:
    """Network interface of ranks on one host."""

    name: str
    mbps: int
    mtu: int
    is_fabric: bool = False
    """InfiniBand or RoCE, on which no headers of TCP are counted."""

    @property
    def rate(self) -> float:
        """Return its payload in GB/s."""
        return self.mbps / 8000 if self.is_fabric else goodput(self.mbps, self.mtu)

    def __str__(self) -> str:
        speed = f"{self.name} with {self.mbps / 1000:g} Gb/s"
        return speed if self.is_fabric else f"{speed}, MTU {self.mtu}"


@dataclass(frozen=True)
class HostSpeeds:
    """Speeds that one host reports; what it does not report is absent."""

    wires: tuple[Wire, ...] = ()
    """Interfaces that ranks use together (rails)."""

    pcie: tuple[tuple[int, int], ...] = ()
    """Generation and width of each device."""

    nvlink: float | None = None
    """Of one device to all others of its node."""


@dataclass(frozen=True)
class Bound:
    """Upper limit of a bus bandwidth."""

    rate: float
    text: str
    """Part that sets it, and its host."""


@dataclass(frozen=True)
class Judgement:
    """Share of the tightest bound that a result reached."""

    bound: Bound
    share: float


def goodput(mbps: int, mtu: int) -> float:
    """Return the payload of TCP on a wire of `mbps` Mb/s: (MTU - 52) / (MTU + 38) of it."""
    return mbps / 8000 * (mtu - HEADERS) / (mtu + FRAME)


def tightest(hosts: Mapping[str, HostSpeeds], operation: Operation, ranks: int, ranks_per_node: int) -> Bound | None:
    """Return the tightest bound of `operation` between all hosts; None if no speed is known.

    Rings cross the wire of each node once in each direction, so their bus bandwidth is that of the wire. In an
    all-to-all, all ranks of a node send to all ranks elsewhere at the same time.
    """
    factor = 1.0
    if operation is Operation.ALL_TO_ALL and ranks > ranks_per_node:
        factor = (ranks - 1) / (ranks_per_node * (ranks - ranks_per_node))
    found = [
        Bound(each.rate * (factor if is_wire else 1.0), each.text)
        for host, speeds in hosts.items()
        for each, is_wire in _bounds(host, speeds, is_one_node=len(hosts) == 1)
    ]
    return min(found, key=lambda each: each.rate, default=None)


def _bounds(host: str, speeds: HostSpeeds, *, is_one_node: bool) -> Iterable[tuple[Bound, bool]]:
    """Yield bounds of one host, and whether each is that of its network."""
    if speeds.wires and not is_one_node:
        rate = sum(each.rate for each in speeds.wires)
        yield Bound(rate, f"network of {host}: {', '.join(map(str, speeds.wires))}"), True
    if speeds.pcie and speeds.nvlink is None:
        generation, width = min(speeds.pcie, key=lambda each: LANES.get(each[0], 0.0) * each[1])
        if generation in LANES:
            yield Bound(LANES[generation] * width, f"PCIe of {host}: generation {generation}, x{width}"), False
    if speeds.nvlink is not None and is_one_node:
        yield Bound(speeds.nvlink, f"NVLink of {host}"), False


@dataclass(frozen=True)
class Conditions:
    """Conditions of a measurement that decide whether it is judged."""

    backend: str
    ranks: int
    ranks_per_node: int
    hosts: Mapping[str, HostSpeeds] = field(default_factory=dict)


def judged_bandwidth(operation: Operation, size: int, bandwidth: float, conditions: Conditions) -> Judgement | str:
    """Return the share of the tightest bound, or the reason why the result is not judged."""
    least = LEAST_SIZE.get(conditions.backend, USUAL_LEAST_SIZE)
    if size < least:
        return f"not judged: payload below {least >> 20} MiB"
    bound = tightest(conditions.hosts, operation, conditions.ranks, conditions.ranks_per_node)
    if bound is None:
        return "not judged: no host reports the speed of its links"
    if bandwidth > ABOVE * bound.rate:
        return f"not judged: above the reported speed ({bound.text}), which is not that of the link"
    return Judgement(bound, bandwidth / bound.rate)
