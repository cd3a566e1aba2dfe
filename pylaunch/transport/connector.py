"""The interface to a host: run commands on it, explain why they do not run, close connections.

`connections.connector_of` picks the implementation for a host: `openssh` for SSH, `slurm` for nodes of a job. No
code outside `transport` builds a command line that reaches a host.
"""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.cluster import Host
from pylaunch.model.text.argv import Argv
from pylaunch.transport.process import Completed


@dataclass(frozen=True)
class ConnectionFailure:
    """Why a host cannot be reached, and what to type next."""

    reason: str
    hint: str | None = None
    is_final: bool = False
    """No further attempt can succeed: the Slurm job of the host has ended."""

    host_answers: bool = False
    """The host accepts the connection, and the command does not begin."""

    again: Argv = ()
    """Command line that fails alike and prints more: the reason of a jump host is lost on a connection to share."""


@dataclass(frozen=True)
class Connector:
    """Runs commands on one host."""

    host: Host

    @property
    def identity(self) -> str | None:
        """Identity of the shared connection to the host; None where no login takes place."""
        raise NotImplementedError

    def argv(self, words: Argv, *, shared: bool = True) -> Argv:
        """Return the command line that runs `words` on the host and carries stdin, stdout, stderr and exit status.

        With `shared=False` it opens a connection of its own, even if one to the host is open.
        """
        raise NotImplementedError

    def failure(self, ended: Completed) -> ConnectionFailure | None:
        """Return why the command line `ended` did not reach the host; None when it did, whatever its exit status."""
        raise NotImplementedError

    def timed_out(self, within_s: float) -> ConnectionFailure:
        """Return the failure to report for a host that sent nothing within `within_s` seconds."""
        raise NotImplementedError

    def disconnect(self) -> None:
        """Stop sharing the open connection: the next command logs in again, running commands continue."""

    def ansible_variables(self) -> Mapping[str, str]:
        """Return host variables that make Ansible connect the same way, beyond those of the inventory."""
        raise NotImplementedError
