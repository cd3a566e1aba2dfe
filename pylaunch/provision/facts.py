"""The facts of one host, as its probe answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from pylaunch.base.dataclass import dataclass, field
from pylaunch.protocol.readings.roles import CommunicationFile

T = TypeVar("T")

CAPABILITIES = {"CAP_SYS_RESOURCE": 24, "CAP_SYS_TIME": 25}
"""Bits of the capabilities that roles require."""

FAMILIES = {"debian": "Debian", "ubuntu": "Debian", "rhel": "RedHat", "fedora": "RedHat", "centos": "RedHat"}
"""Distributions that others say they are like, or are: what Ansible calls their os_family."""


@dataclass(frozen=True)
class Unreadable:
    """A question that the host could not answer."""

    reason: str


@dataclass(frozen=True)
class FileFact:
    """A file on a host."""

    sha256: str
    mode: str
    owner: str
    group: str


@dataclass(frozen=True)
class SysctlFact:
    """A kernel setting on a host."""

    value: str
    read_only: bool


@dataclass(frozen=True)
class LimitFact:
    """A limit of a rank on a host."""

    soft: str
    hard: str


@dataclass(frozen=True)
class ServiceFact:
    """A systemd unit, in systemd's words."""

    load: str
    enabled: str
    active: str
    condition: str


@dataclass(frozen=True)
class EnvironmentFact:
    """A Python environment on a host."""

    recorded: str
    digest: str
    runs: bool


@dataclass(frozen=True)
class AlteredFile:
    """A file of a Python environment that is not as it was installed."""

    package: str
    path: str
    how: str
    """edited, missing or added."""


@dataclass(frozen=True)
class GpuFact:
    """NVIDIA's devices on a host, and what must agree around them."""

    driver: str | None
    open_module: bool
    kernel: str
    gpus: int
    models: list[str]
    firmware: list[str]
    nvswitches: int
    persistence: str | None
    library: str | None
    """The driver version that nvidia-smi's libraries speak of, or its complaint."""

    fabric_manager: str | None
    peermem: bool
    infiniband: int


HostFacts = Mapping[str, Mapping[str, str | None]]
"""Group → fact → value. A group that could not be read is {"unreadable": reason}; empty where nobody asked."""


@dataclass(frozen=True)
class WantedFile:
    """File that the host should have, with the hash of the content that it computed."""

    path: str
    sha256: str
    is_foreign: bool
    """The file exists and has another author."""


@dataclass(frozen=True)
class CommunicationFact:
    """Network settings of a host: interface and adapters that lead to its peers."""

    profile: str
    interface: str
    files: Sequence[CommunicationFile]

    @property
    def wanted_files(self) -> tuple[WantedFile, ...]:
        """The files that say so."""
        return tuple(WantedFile(**file) for file in self.files)


@dataclass(frozen=True)
class Distribution:
    """Distribution of a host."""

    name: str
    ids: Sequence[str]
    """Its own id, then those of what it is like, as os-release has them."""

    @property
    def family(self) -> str | None:
        """Ansible's word for it: "Debian" or "RedHat". None: the roles do not know it."""
        return next((FAMILIES[each] for each in self.ids if each in FAMILIES), None)


class Answers(Generic[T]):
    """Answers of one kind, by what was asked about. None: there is no such thing on the host."""

    def __init__(self, asked: Sequence[str], answers: Sequence[T | Unreadable | None]) -> None:
        self._answers = dict(zip(asked, answers, strict=True))

    def __getitem__(self, asked: str) -> T | Unreadable | None:
        return self._answers[asked]

    def __contains__(self, asked: str) -> bool:
        return asked in self._answers


def _not_asked() -> Answers[Any]:
    return Answers((), ())


@dataclass(frozen=True)
class Facts:
    """Facts of one host."""

    hostname: str
    capabilities: int
    distribution: Distribution
    packages: Answers[str]
    files: Answers[FileFact]
    exists: Answers[bool]
    blocks: Answers[str]
    lines: Answers[list[str]]
    sysctls: Answers[SysctlFact]
    limits: Answers[LimitFact]
    filesystems: Answers[int]
    services: Answers[ServiceFact]
    environments: Answers[EnvironmentFact]
    links: Answers[str]
    altered: Answers[tuple[AlteredFile, ...]] = field(default_factory=_not_asked)
    """Per environment, where every file was looked at."""

    contents: Answers[str] = field(default_factory=_not_asked)
    holds: Answers[bool] = field(default_factory=_not_asked)
    sshd: Answers[str] = field(default_factory=_not_asked)
    gpus: Answers[GpuFact] = field(default_factory=_not_asked)
    communications: Answers[CommunicationFact] = field(default_factory=_not_asked)
    reports: Answers[list[str]] = field(default_factory=_not_asked)
    locks: Answers[str] = field(default_factory=_not_asked)
    """Per lock of a package manager: the process that holds it."""

    host_facts: HostFacts = field(default_factory=dict)

    def may(self, capability: str) -> bool:
        """The host's processes can be given `capability`."""
        return bool(self.capabilities >> CAPABILITIES[capability] & 1)


def key(question: Any) -> str:
    """Return the key of an answer."""
    if isinstance(question, str):
        return question
    return "\n".join((question["path"], question.get("begin") or question.get("regexp", "")))
