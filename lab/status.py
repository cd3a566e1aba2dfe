"""The current state of a lab's nodes, always read from the system."""

from lab import network, spec
from lab.lab import Lab
from lab.nodes.machine import Machine
from pylaunch.base.dataclass import dataclass


@dataclass(frozen=True)
class NodeStatus:
    """State of one node."""

    name: str
    address: str
    state: str
    """State of systemd in the node (running, degraded, starting, …), or: frozen, off, local."""

    link: str
    """up, or cut."""

    failed_units: tuple[str, ...] = ()


def look(name: str) -> tuple[NodeStatus, ...]:
    """Return the state of every node of lab `name`, in rank order. Raises LabError when there is no such lab."""
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
    """Return the failed systemd units of the node."""
    listing = node.run("systemctl", "list-units", "--failed", "--plain", "--no-legend").stdout
    return tuple(line.split()[0] for line in listing.splitlines() if line.strip())
