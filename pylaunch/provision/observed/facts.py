"""The facts of one host, as its probe answered."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pylaunch.base.dataclass import dataclass, field
from pylaunch.probe.answers import Unmeasured
from pylaunch.protocol.readings.roles import (
    CommunicationReading,
    DistributionReading,
    EnvironmentReading,
    FileReading,
    GpuReading,
    LimitReading,
    ServiceReading,
    SysctlReading,
)

T = TypeVar("T")

CAPABILITIES = {"CAP_SYS_RESOURCE": 24, "CAP_SYS_TIME": 25}
"""Bits of the capabilities that roles require."""

SUPPORTED = frozenset({"debian", "ubuntu"})
"""Distributions that the roles know; others say that they are like one of them."""

Answers = Mapping[str, T | Unmeasured | None]
"""Answers of one kind, by what was asked about. None: there is no such thing on the host."""

HostFacts = Mapping[str, Mapping[str, str | None]]
"""Group → fact → value. A group that could not be read is {"unreadable": reason}; empty where nobody asked."""


def is_supported(distribution: DistributionReading) -> bool:
    """Return whether the roles know a distribution."""
    return not SUPPORTED.isdisjoint(distribution["ids"])


@dataclass(frozen=True)
class Facts:
    """Facts of one host."""

    hostname: str
    capabilities: int
    distribution: DistributionReading
    packages: Answers[str]
    files: Answers[FileReading]
    exists: Answers[bool]
    modes: Answers[str]
    blocks: Answers[str]
    lines: Answers[list[str]]
    sysctls: Answers[SysctlReading]
    limits: Answers[LimitReading]
    filesystems: Answers[int]
    services: Answers[ServiceReading]
    environments: Answers[EnvironmentReading]
    links: Answers[str]
    altered: Answers[list[tuple[str, str, str]]] = field(default_factory=dict)
    """Package, path and "edited", "missing" or "added"; per environment whose files were all requested."""

    contents: Answers[str] = field(default_factory=dict)
    holds: Answers[bool] = field(default_factory=dict)
    sshd: Answers[str] = field(default_factory=dict)
    gpus: Answers[GpuReading] = field(default_factory=dict)
    communications: Answers[CommunicationReading] = field(default_factory=dict)
    reports: Answers[list[str]] = field(default_factory=dict)
    locks: Answers[str] = field(default_factory=dict)
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
