"""The files of a lab. The spec is written before anything else changes, so that `down` can always undo it."""

import difflib
import hashlib
import json
import os
import re
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from pylaunch.base.dataclass import asdict, dataclass
from pylaunch.errors import LabError, UsageError
from pylaunch.model.text import typed_json
from pylaunch.model.text.argv import quoted
from pylaunch.store.files import state_directory

SYSTEM_LABS = Path("/var/lib/pylaunch/lab")
IMAGES = Path("/var/cache/pylaunch/lab")

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")
MOST_NODES = 64
_FIRST_HOST = 11


def labs_directory() -> Path:
    """Return the directory of all labs: the machine's for root, the user's own for others."""
    return SYSTEM_LABS if os.geteuid() == 0 else state_directory() / "lab"


def check_name(name: str) -> None:
    """Raise UsageError for an invalid lab name; paths and interfaces contain it."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"lab name {name!r}: expected 1 to 30 of a-z, 0-9 and -, starting and ending with a letter or digit"
        )


def check_request(name: str, nodes: int) -> None:
    """Raise UsageError for an invalid name or number of nodes."""
    check_name(name)
    if not 1 <= nodes <= MOST_NODES:
        raise UsageError(f"number of nodes {nodes}: expected 1 to {MOST_NODES}")


class NodePaths:
    """The files of one node on the controller."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.upper = directory / "upper"
        """Upper layer: the files in which the node differs from the image."""
        self.work = directory / "work"
        """Work directory of overlayfs."""
        self.root = directory / "root"
        """Mount point of the node's root, in the node's mount namespace only."""
        self.console = directory / "console.log"
        """Output of nspawn and the node's console, of all boots."""
        self.notify = directory / "notify"
        """Socket on which a booting node reports that it is ready."""
        self.host_key = directory / "ssh_host_ed25519_key"
        """The node's SSH host key, created before its first boot."""


class LabPaths:
    """The files of one lab."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.spec = directory / "lab.json"
        """The spec: the first file written and the last removed."""
        self.complete = directory / "complete"
        """Exists once `up` has completed."""
        self.key = directory / "id_ed25519"
        """The private key for all nodes."""
        self.inventory = directory / "cluster.ini"
        """The inventory, unless the user chooses another path."""
        self.xdg_state = directory / "xdg-state"
        """State directory of pylaunch commands that tests run against this lab."""
        self.environment = directory / "env"
        """Directory of the Python environment of local nodes."""
        self.slurm_commands = directory / "bin"
        """Directory of the Slurm commands that this machine runs on the first node."""

    def node(self, name: str) -> NodePaths:
        """Return the files of node `name`."""
        return NodePaths(self.directory / "nodes" / name)


def lab_paths(name: str) -> LabPaths:
    """Return the files of lab `name`."""
    return LabPaths(labs_directory() / name)


@dataclass(frozen=True)
class LabSpec:
    """A lab as decided by `up`."""

    name: str
    nodes: tuple[str, ...]
    inventory: str
    share: tuple[str, ...] = ()
    """Directories of the controller that every node sees at the same path."""

    machines: "Machines | None" = None
    """None: local nodes, which are directories of this machine."""

    addition: str | None = None
    """Software of the nodes beyond the image of all labs: "slurm"."""

    @property
    def paths(self) -> LabPaths:
        """The lab's files."""
        return lab_paths(self.name)


@dataclass(frozen=True)
class Machines:
    """Image, subnet and cgroup of real nodes."""

    image: str
    subnet: str
    cgroup: str
    """Directory that holds one cgroup per node."""

    @property
    def network(self) -> IPv4Network:
        """The addresses of the lab."""
        return IPv4Network(self.subnet)

    @property
    def gateway(self) -> IPv4Address:
        """The controller's address in the lab."""
        return self.network[1]

    def address(self, index: int) -> IPv4Address:
        """Return the address of the node with this index, counted from 0."""
        return self.network[_FIRST_HOST + index]


def short_name(name: str) -> str:
    """Return a short name of the lab for interface names, which have 15 bytes at most."""
    return "pl" + hashlib.sha256(name.encode()).hexdigest()[:5]


def machine_name(lab: str, node: str) -> str:
    """Return the node's name for nspawn; its network cable is `vb-` and this name."""
    return f"{short_name(lab)}-{node}"


def node_names(count: int) -> tuple[str, ...]:
    """Return n1, n2, …"""
    return tuple(f"n{number}" for number in range(1, count + 1))


def save(spec: LabSpec) -> None:
    """Write the spec to a temporary file and rename it."""
    path = spec.paths.spec
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps(asdict(spec), indent=2) + "\n")
    aside.replace(path)


def load(name: str) -> LabSpec:
    """Load the spec of lab `name`. Raises LabError when there is no such lab, UsageError for an invalid name."""
    check_name(name)
    try:
        return typed_json.decoded(lab_paths(name).spec.read_text(), LabSpec)
    except FileNotFoundError:
        raise unknown(name) from None


def unknown(name: str) -> LabError:
    """Return the error for a lab that does not exist."""
    there = names()
    evidence = [f"labs on this machine: {', '.join(there)}"] if there else ["there is no lab on this machine"]
    near = difflib.get_close_matches(name, there, n=1)
    hint = f"--name {near[0] if near else 'NAME'}" if there else quoted(("python", "-m", "lab", "up", "--name", name))
    return LabError(f"no lab named {name}", evidence=evidence, hint=hint)


def names() -> tuple[str, ...]:
    """Return the labs of this machine, complete or not."""
    return tuple(sorted(path.parent.name for path in labs_directory().glob("*/lab.json")))
