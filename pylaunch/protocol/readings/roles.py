"""Types of readings against which roles are compared."""

from __future__ import annotations

from typing import TypedDict


class DistributionReading(TypedDict):
    """Distribution of a host, from os-release: its name, its id and the ids of those it is like."""

    name: str
    ids: list[str]


class IdentityReading(TypedDict):
    """Identity of a host."""

    hostname: str
    capabilities: int
    distribution: DistributionReading


class FileReading(TypedDict):
    """A file."""

    sha256: str
    mode: str
    owner: str
    group: str


class SysctlReading(TypedDict):
    """A kernel setting."""

    value: str
    read_only: bool


class LimitReading(TypedDict):
    """A limit of a rank, in the unit of limits.conf."""

    soft: str
    hard: str


class ServiceReading(TypedDict):
    """A systemd unit, in systemd's words."""

    load: str
    enabled: str
    active: str
    condition: str


class EnvironmentReading(TypedDict):
    """A Python environment: its digest at installation and now."""

    recorded: str
    digest: str
    runs: bool


class GpuReading(TypedDict):
    """NVIDIA's devices on a host with the versions around them."""

    driver: str | None
    open_module: bool
    kernel: str
    gpus: int
    models: list[str]
    firmware: list[str]
    nvswitches: int
    persistence: str | None
    library: str | None
    fabric_manager: str | None
    peermem: bool
    infiniband: int


class CommunicationFile(TypedDict):
    """A file that a host should have for communication."""

    path: str
    sha256: str
    is_foreign: bool


class CommunicationReading(TypedDict):
    """Communication of a host with its peers."""

    profile: str
    interface: str
    files: list[CommunicationFile]


class SshdQuestion(TypedDict):
    """Options of sshd, in lower case."""

    options: list[str]
    sudo_password: str | None


class ReportQuestion(TypedDict):
    """A program of ours that reports differences."""

    path: str
    sudo_password: str | None
