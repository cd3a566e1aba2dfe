"""Desired state of one role on one host: its `<role>_desired` variable, parsed once."""

from collections.abc import Mapping, Sequence
from typing import Any

from pylaunch.base.dataclass import dataclass, field, fields
from pylaunch.errors import ProvisionError


@dataclass(frozen=True)
class DesiredFile:
    """A whole file that belongs to root."""

    path: str
    mode: str
    content: str
    only_where: str | None = None
    """Wanted only on hosts that have this path."""

    only_without_capability: str | None = None
    """Wanted only on hosts that may not do this, as containers may not set the clock (CAP_SYS_TIME)."""


@dataclass(frozen=True)
class DesiredBlock:
    """Marked lines inside a file that others own too. `@hostname@` stands for the host's own name."""

    path: str
    marker: str
    content: str

    @property
    def begin(self) -> str:
        """The line before the block."""
        return self.marker.replace("{mark}", "BEGIN")

    @property
    def end(self) -> str:
        """The line after the block."""
        return self.marker.replace("{mark}", "END")


@dataclass(frozen=True)
class AbsentLine:
    """Lines that must not be in a file."""

    path: str
    regexp: str


@dataclass(frozen=True)
class DesiredFilesystem:
    """A mounted file system that must be large enough. Verified, never changed."""

    path: str
    minimum_mib: int


@dataclass(frozen=True)
class DesiredLink:
    """A symbolic link."""

    path: str
    target: str


@dataclass(frozen=True)
class DesiredEnvironment:
    """An installed and unmodified Python environment."""

    path: str
    id: str

    @property
    def unnamed(self) -> str:
        """Path of the link of projects that name no environment, in the same root."""
        return f"{self.path.rpartition('/envs/')[0]}/current"


@dataclass(frozen=True)
class DesiredGpu:
    """Required software around NVIDIA's devices, where there are any. Empty strings require nothing."""

    driver: str = ""
    """The version wanted everywhere."""

    persistence: str = ""
    fabric_manager: str = ""
    """"auto": of the driver's version where there are NVSwitches."""

    peer_memory: str = ""
    """"auto": where there is InfiniBand, nvidia_peermem or a driver and kernel that do without."""


@dataclass(frozen=True)
class DesiredCommunication:
    """Network settings of a host, in files whose content the host computes (`agent/shared/sockets/interfaces.py`)."""

    paths: tuple[str, ...]
    peers: tuple[str, ...]
    interface: str
    profile: str
    hcas: tuple[str, ...]
    variables: Mapping[str, str]
    allow_debug: bool

    @property
    def question(self) -> dict[str, Any]:
        """Question for the host."""
        return {
            "path": self.paths[0],
            "peers": list(self.peers),
            "interface": self.interface,
            "profile": self.profile,
            "hcas": list(self.hcas),
            "variables": dict(self.variables),
        }


@dataclass(frozen=True)
class RoleState:
    """Desired state of one role on one host."""

    role: str
    packages: tuple[str, ...] = ()
    files: tuple[DesiredFile, ...] = ()
    blocks: tuple[DesiredBlock, ...] = ()
    absent_lines: tuple[AbsentLine, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    """Limits of a rank, in the units of limits.conf."""

    filesystems: tuple[DesiredFilesystem, ...] = ()
    services: tuple[str, ...] = ()
    """Units that are enabled and active."""

    absent_services: tuple[str, ...] = ()
    """Units that are neither, where they exist."""

    environments: tuple[DesiredEnvironment, ...] = ()
    links: tuple[DesiredLink, ...] = ()
    sshd: Mapping[str, str] = field(default_factory=dict)
    """Options of sshd, in lower case, as its whole configuration must come to."""

    holds: tuple[str, ...] = ()
    """Packages held at their version, where they are installed."""

    gpus: tuple[DesiredGpu, ...] = ()
    """Required software around NVIDIA's devices; at most one entry. Verified, never changed."""

    remarks: tuple[str, ...] = ()
    """Settings that the role cannot express on this host; reported as notes."""

    communications: tuple[DesiredCommunication, ...] = ()
    absent_paths: tuple[str, ...] = ()
    """Files and directories that must not be there."""

    modes: Mapping[str, str] = field(default_factory=dict)
    """Modes of devices that must be there, by path."""

    reports: tuple[str, ...] = ()
    """Programs on the host that report their own differences: Python code that obeys `show`."""

    @property
    def depends_on_distribution(self) -> bool:
        """Return whether names or paths in the state depend on the distribution."""
        return bool(self.packages or self.services or self.holds)


_ENTRIES = {
    "files": DesiredFile,
    "blocks": DesiredBlock,
    "absent_lines": AbsentLine,
    "filesystems": DesiredFilesystem,
    "environments": DesiredEnvironment,
    "links": DesiredLink,
    "gpus": DesiredGpu,
}


def parse_state(role: str, desired: Mapping[str, Any]) -> RoleState:
    """Parse a rendered `<role>_desired`. Raises ProvisionError for a key that is not part of the schema."""
    known = {item.name for item in fields(RoleState)} - {"role"}
    mappings = {item.name for item in fields(RoleState) if item.default_factory is dict}
    values: dict[str, Any] = {}
    for key, value in desired.items():
        if key not in known:
            raise ProvisionError(f"{role}_desired: unknown key {key!r}", hint=f"known keys: {', '.join(sorted(known))}")
        if key in mappings:
            values[key] = {str(name): " ".join(str(wanted).split()) for name, wanted in value.items()}
        elif key == "communications":
            values[key] = tuple(_communication(body) for body in value)
        elif key in _ENTRIES:
            values[key] = tuple(_entry(role, key, body) for body in value)
        else:
            values[key] = tuple(str(name) for name in value)
    return RoleState(role, **values)


def _communication(body: Mapping[str, Any]) -> DesiredCommunication:
    return DesiredCommunication(
        paths=tuple(body["paths"]),
        peers=tuple(str(peer) for peer in body["peers"]),
        interface=str(body["interface"]),
        profile=str(body["profile"]),
        hcas=tuple(str(name) for name in body["hcas"]),
        variables={str(name): str(value) for name, value in body["variables"].items()},
        allow_debug=bool(body["allow_debug"]),
    )


def _entry(role: str, key: str, body: Mapping[str, Any]) -> object:
    kind = _ENTRIES[key]
    integers = {item.name for item in fields(kind) if item.type is int}
    converted = {name: int(value) if name in integers else str(value) for name, value in body.items()}
    try:
        return kind(**converted)
    except TypeError as error:
        raise ProvisionError(f"{role}_desired: {key}: {error}") from None


PACKAGE_LOCK = "/var/lib/dpkg/lock-frontend"
"""Locks of apt and dpkg. Hosts of other families do not have these files."""


def questions(states: Sequence[RoleState], *, deep: bool = False) -> dict[str, list[Any]]:
    """Return the questions whose answers judge `states`; the answers have the same order.

    `deep` also verifies every file of the Python environments, which takes as long as reading them.
    """
    files = [file for state in states for file in state.files]
    communications = [each for state in states for each in state.communications]
    return {
        "packages": [name for state in states for name in state.packages],
        "files": [*(file.path for file in files), *(path for each in communications for path in each.paths)],
        "exists": [
            *(file.only_where for file in files if file.only_where is not None),
            *(path for state in states for path in state.absent_paths),
        ],
        "modes": [path for state in states for path in state.modes],
        "blocks": [
            {"path": block.path, "begin": block.begin, "end": block.end} for state in states for block in state.blocks
        ],
        "lines": [{"path": line.path, "regexp": line.regexp} for state in states for line in state.absent_lines],
        "sysctls": [key for state in states for key in state.sysctls],
        "limits": [name for state in states for name in state.limits],
        "filesystems": [filesystem.path for state in states for filesystem in state.filesystems],
        "services": [unit for state in states for unit in (*state.services, *state.absent_services)],
        "environments": [environment.path for state in states for environment in state.environments],
        "links": [
            path
            for state in states
            for path in (*(link.path for link in state.links), *(each.unnamed for each in state.environments))
        ],
        "altered": [environment.path for state in states for environment in state.environments if deep],
        "sshd": [option for state in states for option in state.sshd],
        "holds": [name for state in states for name in state.holds],
        "gpus": ["all" for state in states for _ in state.gpus],
        "communications": [each.question for each in communications],
        "reports": [path for state in states for path in state.reports],
        "locks": [PACKAGE_LOCK] if any(state.packages for state in states) else [],
    }
