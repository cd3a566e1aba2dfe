"""The connector of hosts that are reached over SSH: OpenSSH with the user's own configuration.

Connections are shared (`sharing`). Host keys are always checked, against the user's known_hosts and the project's.
"""

import functools
from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.text.argv import Argv, quoted
from pylaunch.transport import process
from pylaunch.transport.connector import ConnectionFailure, Connector
from pylaunch.transport.openssh.failures import NO_WORDS, explain_failure
from pylaunch.transport.openssh.sharing import (
    ALIVE_COUNT,
    ALIVE_S,
    SHARED,
    UNSHARED,
    control_path,
    destination,
    identity,
    open_connections,
    options,
    target,
)
from pylaunch.transport.process import Completed

FAILED = 255
"""Exit status of ssh when ssh itself fails."""

CONTROL_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class OpenSshConnector(Connector):
    """The `Connector` of a host that is reached over SSH."""

    known_hosts: str | None
    """Path of the project's known_hosts file."""

    @functools.cached_property
    def identity(self) -> str:
        """Identity of the shared connection to the host."""
        return identity(self.host, self.known_hosts)

    def argv(self, words: Argv, *, shared: bool = True) -> Argv:
        """Return the ssh command that runs `words` on the host."""
        sharing = (*SHARED, "-o", f"ControlPath={control_path(self.identity)}") if shared else UNSHARED
        return ("ssh", "-T", *sharing, *options(self.known_hosts), *destination(self.host), "exec " + quoted(words))

    def failure(self, ended: Completed) -> ConnectionFailure | None:
        """Explain ssh's own exit status, with what it printed."""
        failure = explain_failure(self.host, ended.stderr) if ended.returncode == FAILED else None
        if failure is None or NO_WORDS not in failure.reason:
            return failure
        return replace(failure, again=self.argv(("true",), shared=False))

    def timed_out(self, within_s: float) -> ConnectionFailure:
        """Return the failure to report for a host that sent nothing within `within_s` seconds.

        A shared connection that is still open after this time has logged in, and the host keeps it alive: ssh closes
        one to a silent host at the question after the last that it may leave open.
        """
        place, name = f"ssh {target(self.host)}", self.host.name
        if within_s > ALIVE_S * (ALIVE_COUNT + 1) and self.identity in open_connections():
            return ConnectionFailure(
                f"{place}: SSH logged in, but the command there did not answer within {within_s:.0f} s",
                f"on {name}, look for a command that waits in a startup file of the login shell (~/.bashrc), or for"
                f" storage that hangs, of the home directory, {self.host.node_root} or {self.host.agent_python};"
                " a login with another user shows them",
                host_answers=True,
            )
        return ConnectionFailure(f"{place}: no answer within {within_s:.0f} s", f"check that {name} is up")

    def disconnect(self) -> None:
        """Stop sharing the open connection, if there is one."""
        ssh, *words = self.argv(("true",))
        process.run((ssh, "-O", "stop", *words), timeout_s=CONTROL_TIMEOUT_S)

    def ansible_variables(self) -> Mapping[str, str]:
        """Return the path of the shared connection, which Ansible quotes and expands `%` in before ssh does."""
        return {"ansible_control_path": control_path(self.identity).strip('"').replace("%", "%%")}
