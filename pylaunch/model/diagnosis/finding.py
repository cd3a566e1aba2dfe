"""Findings of checks about hosts."""

from enum import Enum

from pylaunch.base.dataclass import dataclass


class Severity(Enum):
    """Severity of a finding, worst first."""

    FAIL = "fail"
    """A run on these hosts cannot work, or cannot be trusted."""

    WARN = "warn"
    """A run works but is slower, at risk, or not as intended."""

    UNKNOWN = "could not measure"
    """The fact could not be read. Never treated as a pass."""

    NOTE = "note"
    """Worth knowing; nothing to do."""


ATTESTATION = "attestation"
"""Check of the findings about facts in which the nodes of a start differ."""


@dataclass(frozen=True)
class Finding:
    """Result of one check on all hosts that share it."""

    check: str
    """Id of the check: `subject.name`."""

    severity: Severity
    hosts: tuple[str, ...]
    text: str
    """Finding with the value and the expected one. It names no host except another host that is involved."""

    fix: str = ""
    """Command to type next; "" if unknown."""

    role: str = ""
    """Role of `provision` that repairs it; "" if none does."""

    evidence: tuple[str, ...] = ()
    """Lines that show it: a diff, a process, output of a tool."""
