"""Errors that reach a person. Each carries what happened, the evidence, and what to type next.

    PylaunchError                 exit code
      UsageError                  2   a flag, a file or a value the user wrote
        InventoryError            2   the same, found in the inventory
      ClusterNotReadyError        3   a host refused, is unreachable, or is not what the plan needs
      ProvisionError              4   Ansible ran and a task failed
      LabError                    3   the lab could not be built, changed or removed

Anything else that escapes is our bug: exit code 70.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the `pylaunch` command. They are part of its interface."""

    DONE = 0
    JOB_FAILED = 1
    DIFFERENT = 1
    """What --exit-code asked about differs, as with git diff --exit-code."""

    USAGE = 2
    CLUSTER_NOT_READY = 3
    PROVISION_FAILED = 4
    BUG = 70
    INTERRUPTED = 130


class PylaunchError(Exception):
    """What happened (one line, with the value), optional evidence lines, optional hint (what to type next)."""

    exit_code: ExitCode = ExitCode.BUG

    def __init__(self, message: str, *, evidence: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.evidence = tuple(evidence)
        self.hint = hint

    def render(self) -> str:
        """The error as the user reads it: message, indented evidence, blank line, hint."""
        lines = [_indented(f"error: {self.message}"), *(_indented(f"  {line}") for line in self.evidence)]
        if self.hint is not None:
            lines += ["", f"hint: {self.hint}"]
        return "\n".join(lines)


def _indented(text: str) -> str:
    """`text` with further lines below its first, so that none of them passes for a line of ours."""
    return text.replace("\n", "\n  ")


class UsageError(PylaunchError):
    """The user wrote something that cannot be obeyed."""

    exit_code = ExitCode.USAGE


class InventoryError(UsageError):
    """The inventory is missing, unreadable or says something impossible."""


class ClusterNotReadyError(PylaunchError):
    """At least one host cannot take part; no rank was started."""

    exit_code = ExitCode.CLUSTER_NOT_READY


class ProvisionError(PylaunchError):
    """Ansible could not bring at least one host to its desired state."""

    exit_code = ExitCode.PROVISION_FAILED


class LabError(PylaunchError):
    """The lab could not be built, changed or removed."""

    exit_code = ExitCode.CLUSTER_NOT_READY
