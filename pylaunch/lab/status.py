"""What there is of a lab now: every answer comes from looking, none from memory."""

from __future__ import annotations

from dataclasses import dataclass

from pylaunch.lab import network, spec
from pylaunch.lab.lab import Lab
from pylaunch.lab.machine import Machine


@dataclass(frozen=True)
class NodeStatus:
    """One node."""

    name: str
    address: str
    state: str
    """What systemd in the node says of itself (running, degraded, starting, …), or: frozen, off, local."""

    link: str
    """up, or cut."""

    failed_units: tuple[str, ...] = ()


def look(name: str) -> tuple[NodeStatus, ...]:
    """Every node of lab `name`, in rank order. Local nodes have nothing to look at. Raises LabError for no such lab."""
    kept = spec.load(name)
    if kept.machines is None:
        return tuple(NodeStatus(node, "127.0.0.1", "local", "up") for node in kept.nodes)
    lab = Lab(kept, kept.machines)
    up = {link.name for link in network.links() if link.is_up}
    return tuple(_look(node, network.cable(name, node.name) in up) for node in lab.nodes)


def _look(node: Machine, is_connected: bool) -> NodeStatus:
    link = "up" if is_connected else "cut"
    if not node.cgroup.is_populated:
        return NodeStatus(node.name, node.address, "off", link)
    if node.cgroup.is_frozen:
        return NodeStatus(node.name, node.address, "frozen", link)
    state = node.run("systemctl", "is-system-running", check=False).stdout.strip()
    return NodeStatus(node.name, node.address, state, link, failed_units(node) if state == "degraded" else ())


def failed_units(node: Machine) -> tuple[str, ...]:
    """The units of the node that systemd calls failed."""
    listing = node.run("systemctl", "list-units", "--failed", "--plain", "--no-legend").stdout
    return tuple(line.split()[0] for line in listing.splitlines() if line.strip())
