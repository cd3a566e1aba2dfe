"""The inventory of a lab, and the host keys of its nodes next to it."""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from lab.nodes.machine import Machine
from lab.spec import LabSpec
from pylaunch.errors import UsageError
from pylaunch.store.files import project_known_hosts

_REAL = """\
# Written by `python -m lab up --name {name}`: {count} systemd nodes on this machine.
# Remove them with `python -m lab down --name {name}`.

# One line per host, in rank order: address, user and key of SSH.
[cluster]
{hosts}
"""

_LOCAL = """\
# Written by `python -m lab up --name {name}`: {count} local nodes, which are directories of this machine.
# Remove them with `python -m lab down --name {name}`.

# One line per node, in rank order: pylaunch keeps the files of the node in pylaunch_node_root.
[cluster]
{hosts}

[cluster:vars]
ansible_connection=local
# Ranks communicate over the loopback interface.
ansible_host=127.0.0.1
interface=lo
# Provisioning builds the Python environment and changes nothing else on this machine.
pylaunch_unprivileged=true
pylaunch_env_root={environment}
"""


def real_inventory(spec: LabSpec, nodes: Iterable[Machine]) -> str:
    """Return the inventory of a lab with real nodes."""
    hosts = [
        f"{node.name} ansible_host={node.address} ansible_user=root ansible_ssh_private_key_file={spec.paths.key}"
        for node in nodes
    ]
    return _REAL.format(name=spec.name, count=len(hosts), hosts="\n".join(hosts))


def local_inventory(spec: LabSpec) -> str:
    """Return the inventory of a lab with local nodes."""
    hosts = [f"{node} pylaunch_node_root={spec.paths.node(node).directory}" for node in spec.nodes]
    return _LOCAL.format(
        name=spec.name, count=len(hosts), hosts="\n".join(hosts), environment=spec.paths.environment
    )  # fmt: skip


def check_place(path: Path) -> None:
    """Create the directory of the inventory at `path`. Raises UsageError if no file can be written there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            return
    except OSError as error:
        raise UsageError(
            f"--inventory-out {path}: cannot be written: {error.strerror}", hint="name a file in a directory of yours"
        ) from None


def write_inventory(spec: LabSpec, text: str) -> None:
    """Write the inventory to the path in the spec."""
    path = Path(spec.inventory)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def with_host_keys(known_hosts: str, keys: Mapping[str, str | None]) -> str:
    """Return `known_hosts` with the lines of these addresses replaced, or removed where the key is None."""
    kept = [line for line in known_hosts.splitlines() if not set(_addresses(line)) & keys.keys()]
    added = [f"{address} {key}" for address, key in keys.items() if key is not None]
    return "".join(f"{line}\n" for line in [*kept, *added])


def record_host_keys(spec: LabSpec, keys: Mapping[str, str | None]) -> None:
    """Write the keys of these addresses to the known_hosts of the inventory's project; None removes a key."""
    path = project_known_hosts(Path(spec.inventory))
    before = path.read_text() if path.exists() else ""
    after = with_host_keys(before, keys)
    if after == before:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".new")
    aside.write_text(after)
    aside.replace(path)


def public_key(node: Machine) -> str:
    """Return type and key of the node's SSH server, as in known_hosts."""
    return " ".join(node.paths.host_key.with_suffix(".pub").read_text().split()[:2])


def _addresses(line: str) -> list[str]:
    words = line.split()
    return words[0].split(",") if words and not words[0].startswith(("#", "@")) else []
