"""What a lab gives to the rest of pylaunch: an inventory, and the host keys of its nodes next to it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from pylaunch.errors import UsageError
from pylaunch.lab.machine import Machine
from pylaunch.lab.spec import LabSpec
from pylaunch.store.paths import project_known_hosts

_REAL = """\
# Written by `pylaunch lab up --name {name}`: {count} systemd nodes on this machine.
# Remove them with `pylaunch lab down --name {name}`.

# One line per host, in rank order: where SSH connects, as whom, with which key.
[cluster]
{hosts}
"""

_LOCAL = """\
# Written by `pylaunch lab up --name {name}`: {count} local nodes, which are directories of this machine.
# Remove them with `pylaunch lab down --name {name}`.

# One line per node, in rank order: what pylaunch keeps "on the node" goes to pylaunch_node_root.
[cluster]
{hosts}

[cluster:vars]
ansible_connection=local
# Ranks find each other over the loopback interface.
ansible_host=127.0.0.1
interface=lo
# Nothing of the machine is changed: provisioning builds the Python environment and leaves the rest alone.
pylaunch_unprivileged=true
pylaunch_env_root={environment}
"""


def real_inventory(spec: LabSpec, nodes: Iterable[Machine]) -> str:
    """The inventory of a lab with real nodes."""
    hosts = [
        f"{node.name} ansible_host={node.address} ansible_user=root ansible_ssh_private_key_file={spec.paths.key}"
        for node in nodes
    ]
    return _REAL.format(name=spec.name, count=len(hosts), hosts="\n".join(hosts))


def local_inventory(spec: LabSpec) -> str:
    """The inventory of a lab with local nodes."""
    hosts = [f"{node} pylaunch_node_root={spec.paths.node(node).directory}" for node in spec.nodes]
    return _LOCAL.format(
        name=spec.name, count=len(hosts), hosts="\n".join(hosts), environment=spec.paths.environment
    )  # fmt: skip


def check_place(path: Path) -> None:
    """Make the directory of the inventory at `path`. Raises UsageError where no file can be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            return
    except OSError as error:
        raise UsageError(
            f"--inventory-out {path}: cannot be written: {error.strerror}", hint="name a file in a directory of yours"
        ) from None


def write_inventory(spec: LabSpec, text: str) -> None:
    """Write the inventory where the spec wants it."""
    path = Path(spec.inventory)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def with_host_keys(known_hosts: str, keys: Mapping[str, str | None]) -> str:
    """`known_hosts` with the lines of these addresses replaced, or removed where the key is None. Others stay."""
    kept = [line for line in known_hosts.splitlines() if not set(_addresses(line)) & keys.keys()]
    added = [f"{address} {key}" for address, key in keys.items() if key is not None]
    return "".join(f"{line}\n" for line in [*kept, *added])


def record_host_keys(spec: LabSpec, keys: Mapping[str, str | None]) -> None:
    """Put the keys of these addresses into the known_hosts of the inventory's project; None forgets one."""
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
    """Type and key of the node's SSH server, as known_hosts has them."""
    return " ".join(node.paths.host_key.with_suffix(".pub").read_text().split()[:2])


def _addresses(line: str) -> list[str]:
    words = line.split()
    return words[0].split(",") if words and not words[0].startswith(("#", "@")) else []
