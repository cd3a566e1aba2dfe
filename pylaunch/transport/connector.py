"""The interface to a host: run commands on it, explain why they do not run, close connections.

`connections.connector_of` picks the implementation for a host: `openssh` for SSH, `local` for this machine. No code
outside `transport` builds a command line that reaches a host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pylaunch.base.dataclass import dataclass
from pylaunch.model.cluster import Host
from pylaunch.model.text.argv import Argv
from pylaunch.transport.process import Completed

LOGIN_TEST_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class ConnectionFailure:
    """Why a host cannot be reached, and what to type next."""

    reason: str
    hint: str | None = None
    is_final: bool = False
    """No further attempt can succeed: the Slurm job of the host has ended."""


@dataclass(frozen=True)
class LoginTest:
    """A command that shows whether the account runs the commands it is given."""

    argv: Argv
    """Command line to run on the controller, for at most LOGIN_TEST_TIMEOUT_S."""

    failure: Callable[[Completed], ConnectionFailure | None]
    """Return why the account does not run commands; None when it does, and when the connection failed."""


class Connector(Protocol):
    """Runs commands on one host."""

    @property
    def host(self) -> Host:
        """The host."""

    @property
    def identity(self) -> str | None:
        """Identity of the shared connection to the host; None where no login takes place."""

    def argv(self, words: Argv, *, shared: bool = True) -> Argv:
        """Return the command line that runs `words` on the host and carries stdin, stdout, stderr and exit status.

        With `shared=False` it opens a connection of its own, even if one to the host is open.
        """

    def failure(self, ended: Completed) -> ConnectionFailure | None:
        """Return why the command line `ended` did not reach the host; None when it did, whatever its exit status."""

    def timed_out(self, within_s: float) -> ConnectionFailure:
        """Return the failure to report for a host that sent nothing within `within_s` seconds."""

    def login_test(self) -> LoginTest | None:
        """Return a test for accounts that ignore the commands they are given; None where no login takes place."""

    def diagnose(self) -> tuple[str, ...]:
        """Check each step to the host after a failure and return one line per step. May take seconds."""

    def disconnect(self) -> None:
        """Stop sharing the open connection: the next command logs in again, running commands continue."""

    def ansible_variables(self) -> Mapping[str, str]:
        """Return host variables that make Ansible connect the same way, beyond those of the inventory."""
