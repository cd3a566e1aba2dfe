"""What a check has to say about hosts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How much a finding matters, worst first."""

    FAIL = "fail"
    """A run on these hosts cannot work, or cannot be trusted."""

    WARN = "warn"
    """A run works and is slower, at risk, or not what was meant."""

    UNKNOWN = "could not measure"
    """Nobody knows: the fact could not be read. Never taken for a pass."""

    NOTE = "note"
    """Worth knowing; nothing to do."""


@dataclass(frozen=True)
class Finding:
    """One thing that one check found, on all the hosts where it found the same."""

    check: str
    """Id of the check: `subject.name`."""

    severity: Severity
    hosts: tuple[str, ...]
    text: str
    """What was found, with the value and what was expected. No host names in it unless another host is meant."""

    fix: str = ""
    """What to type next; "" when nobody can say."""

    role: str = ""
    """The provisioning role that mends it, for `--fix`; "" when none does."""

    evidence: tuple[str, ...] = ()
    """Lines that show it: a diff, a process, the tool's own words."""
