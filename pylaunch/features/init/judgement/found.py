"""Values that were read on hosts, for their inventory."""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.cluster import Host


@dataclass(frozen=True)
class Storage:
    """The file system of a directory; `free` in bytes."""

    mount: str
    kind: str
    source: str
    free: int


@dataclass(frozen=True)
class FoundRoute:
    """The way of one host to the rank address of a peer; speed in Mb/s, None where the driver reports none."""

    peer: str
    interface: str
    why: str = ""
    """Reason why there is no way."""

    speed: int | None = None
    mtu: int | None = None


@dataclass(frozen=True)
class FoundHost:
    """One host; empty or None for what could not be read."""

    host: Host
    hostname: str = ""
    network: str = ""
    """Equal for hosts that are the same machine."""

    addresses: tuple[str, ...] = ()
    python: str = ""
    """Version of the Python of the agent."""

    resolves: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Addresses to which this host resolves the names of all hosts."""

    system: str = ""
    processors: int | None = None
    memory: int | None = None
    """In bytes."""

    gpus: int | None = None
    cards: tuple[str, ...] = ()
    """Models of the devices that answer nvidia-smi."""

    storage: Mapping[str, Storage] = field(default_factory=dict)
    """File systems of the directories that exist."""

    interpreters: Mapping[str, str] = field(default_factory=dict)
    """Versions of the interpreters that exist, by path: "CPython 3.11.2"."""

    frameworks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Frameworks for ranks by interpreter: "torch 2.6.0"."""
