"""Errors shown to the user. Each carries a message, the evidence, and a hint that says what to type next.

    PylaunchError                 exit code
      UsageError                  2   a flag, a file or a value is wrong
        InventoryError            2   the inventory is wrong
      ClusterNotReadyError        3   a host refused, is unreachable, or does not meet the plan
      ProvisionError              4   Ansible ran and a task failed
      RunFailedError              1   a run did not end well
      LabError                    3   the lab could not be built, changed or removed

Any other exception is a bug of pylaunch: exit code 70.
"""

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the `pylaunch` command, part of its interface."""

    DONE = 0
    JOB_FAILED = 1
    DIFFERENT = 1
    """Files that are there already are others: `fetch` keeps them."""

    USAGE = 2
    CLUSTER_NOT_READY = 3
    PROVISION_FAILED = 4
    BUG = 70
    INTERRUPTED = 130


class PylaunchError(Exception):
    """A message (one line, with the value), optional evidence lines, an optional hint (what to type next)."""

    exit_code: ExitCode = ExitCode.BUG

    def __init__(self, message: str, *, evidence: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.evidence = tuple(evidence)
        self.hint = hint

    def render(self) -> str:
        """Return the error as printed: message, indented evidence, blank line, hint."""
        lines = [_indented(f"error: {self.message}"), *(_indented(f"  {line}") for line in self.evidence)]
        if self.hint is not None:
            lines += ["", f"hint: {self.hint}"]
        return "\n".join(lines)


def _indented(text: str) -> str:
    """Return `text` with its further lines indented, so that none looks like a line of pylaunch."""
    return text.replace("\n", "\n  ")


class UsageError(PylaunchError):
    """A flag, a file or a value cannot be used."""

    exit_code = ExitCode.USAGE


class InventoryError(UsageError):
    """The inventory is missing, unreadable or contradictory."""


class ClusterNotReadyError(PylaunchError):
    """At least one host cannot take part; no rank was started."""

    exit_code = ExitCode.CLUSTER_NOT_READY


class ProvisionError(PylaunchError):
    """Ansible could not bring at least one host to its desired state."""

    exit_code = ExitCode.PROVISION_FAILED


class RunFailedError(PylaunchError):
    """A run did not end well; raised for callers that want an error instead of an outcome."""

    exit_code = ExitCode.JOB_FAILED


class LabError(PylaunchError):
    """The lab could not be built, changed or removed."""

    exit_code = ExitCode.CLUSTER_NOT_READY
