"""The lab's network: a bridge to the controller, and NAT for outgoing traffic, both named after the lab."""

import json
from collections.abc import Iterable
from ipaddress import IPv4Network

from lab.spec import LabSpec, Machines, labs_directory, machine_name, short_name
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import LabError
from pylaunch.transport import process

POOL = IPv4Network("10.213.0.0/16")
"""Each lab gets a /24 of it, in turn."""


def next_subnet(last: int, taken: Iterable[IPv4Network]) -> IPv4Network:
    """Return the next unused /24 of POOL after number `last`.

    The first free one could still have connections of a removed lab, which must not reach the next lab.
    """
    pieces = list(POOL.subnets(new_prefix=24))
    used = list(taken)
    for step in range(1, len(pieces) + 1):
        piece = pieces[(last + step) % len(pieces)]
        if not any(piece.overlaps(other) for other in used):
            return piece
    raise LabError(f"no free subnet for the lab in {POOL}", evidence=[str(other) for other in used])


def choose_subnet() -> IPv4Network:
    """Return the subnet for a new lab. Keep the machine locked until the lab is connected."""
    counter = labs_directory() / ".last-subnet"
    last = int(counter.read_text()) if counter.exists() else -1
    routes = json.loads(_ip("-j", "-4", "route", "show", "table", "all"))
    taken = [IPv4Network(route["dst"], strict=False) for route in routes if route["dst"] != "default"]
    subnet = next_subnet(last, taken)
    counter.write_text(str(list(POOL.subnets(new_prefix=24)).index(subnet)))
    return subnet


def nft_table(lab: str) -> str:
    """Return the name of the lab's nftables tables."""
    return f"pylaunch-lab-{lab}"


def connect(spec: LabSpec, machines: Machines) -> None:
    """Create the bridge and the NAT. Call it with the machine locked."""
    bridge = short_name(spec.name)
    _ip("link", "add", bridge, "type", "bridge")
    _ip("addr", "add", f"{machines.gateway}/{machines.network.prefixlen}", "dev", bridge)
    _ip("link", "set", bridge, "up")
    table = f"ip {nft_table(spec.name)}"
    nft(
        [
            f"add table {table}",
            f"add chain {table} leaving {{ type nat hook postrouting priority srcnat; }}",
            f"add rule {table} leaving ip saddr {machines.subnet} ip daddr != {machines.subnet} masquerade",
        ]
    )


def disconnect(name: str) -> None:
    """Remove bridge, cables and NAT of lab `name`, as far as they exist."""
    bridge = short_name(name)
    for link in links():
        if link.name == bridge or link.name.startswith(f"vb-{bridge}-"):
            # The kernel may remove the cable of a node that was just killed.
            process.run(("ip", "link", "delete", link.name))
    for family in ("ip", "bridge"):
        # Deleting a table that does not exist is an error: add it first.
        nft([f"add table {family} {nft_table(name)}", f"delete table {family} {nft_table(name)}"])


@dataclass(frozen=True)
class NetworkLink:
    """A network interface of the controller."""

    name: str
    is_up: bool


def links() -> list[NetworkLink]:
    """Return the interfaces of the controller."""
    return [NetworkLink(each["ifname"], "UP" in each["flags"]) for each in json.loads(_ip("-j", "link", "show"))]


def cable(lab: str, node: str) -> str:
    """Return the name of the controller's end of the node's network cable."""
    return f"vb-{machine_name(lab, node)}"


def set_link(name: str, *, up: bool) -> None:
    """Set a link up or down."""
    _ip("link", "set", name, "up" if up else "down")


def shape(name: str, mbps: float, burst: int) -> None:
    """Limit what this machine sends over a link. Raises LabError where the kernel has no token bucket."""
    words = ("rate", f"{mbps:g}mbit", "burst", str(burst), "latency", "50ms")
    process.run(("tc", "qdisc", "replace", "dev", name, "root", "tbf", *words)).checked(error=LabError)


def unshape(name: str) -> None:
    """Remove the limit of a link, if it has one."""
    process.run(("tc", "qdisc", "delete", "dev", name, "root"))


def nft(commands: Iterable[str]) -> None:
    """Run nftables commands on this machine, all or none."""
    script = "".join(f"{command}\n" for command in commands)
    process.run(("nft", "-f", "-"), stdin=script.encode()).checked(error=LabError)


def _ip(*arguments: str) -> str:
    return process.run(("ip", *arguments)).checked(error=LabError).stdout
