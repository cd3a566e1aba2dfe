"""The connector of hosts that are reached over SSH: OpenSSH with the user's own configuration.

Connections are shared (`sharing`). Host keys are always checked, against the user's known_hosts and the project's.
"""

import functools
import secrets
from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.cluster import Host
from pylaunch.model.text.argv import Argv, quoted
from pylaunch.transport import process
from pylaunch.transport.connector import ConnectionFailure, Connector, LoginTest
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
from pylaunch.transport.process import Completed, describe_exit

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

    def login_test(self) -> LoginTest | None:
        """Return a test for nologin shells and forced commands."""
        words, expected = echo()

        def failure(ended: Completed) -> ConnectionFailure | None:
            return None if ended.returncode == FAILED else explain(self.host, expected, ended)

        return LoginTest(self.argv(words), failure)

    def diagnose(self) -> tuple[str, ...]:
        """Check name, route, host key and login, one by one."""
        from pylaunch.transport.openssh import diagnosis  # noqa: PLC0415 -- paramiko, used here alone, takes 0.15 s

        return diagnosis.diagnose(self.host, self.known_hosts, self.argv(("true",), shared=False))

    def disconnect(self) -> None:
        """Stop sharing the open connection, if there is one."""
        ssh, *words = self.argv(("true",))
        process.run((ssh, "-O", "stop", *words), timeout_s=CONTROL_TIMEOUT_S)

    def ansible_variables(self) -> Mapping[str, str]:
        """Return the path of the shared connection, which Ansible quotes and expands `%` in before ssh does."""
        return {"ansible_control_path": control_path(self.identity).strip('"').replace("%", "%%")}


NOLOGIN = "This account is currently not available"
"""Output of nologin(8) where /etc/nologin.txt does not replace it."""


def echo() -> tuple[Argv, str]:
    """Return a command and the line that it prints. A program that prints its command does not print this line."""
    token = secrets.token_hex(8)
    return ("/bin/sh", "-c", 'echo "$1-$(($2 + 1))"', "sh", token, "41"), f"{token}-42"


def explain(host: Host, expected: str, ended: Completed) -> ConnectionFailure | None:
    """Return why the account on `host` does not run commands; None when the line `expected` was printed."""
    if any(line.strip() == expected for line in ended.stdout.splitlines()):
        return None
    user = host.ssh.user or "the user"
    lines = [line.strip() for line in (*ended.stdout.splitlines(), *ended.stderr.splitlines()) if line.strip()]
    other = f"log in as another user with ansible_user= of {host.name}"
    if any(NOLOGIN in line for line in lines):
        return ConnectionFailure(
            f"login {target(host)}: the account has no login shell: {NOLOGIN}",
            f"{other}, or as root on {host.name}: usermod --shell /bin/bash {user}",
        )
    output = f"it printed {lines[0][:120]!r}" if lines else "it printed nothing"
    status = describe_exit(ended.returncode)
    return ConnectionFailure(
        f"login {target(host)}: the account does not run the command it is given: {output} ({status})",
        f"{other}, or on {host.name} look for ForceCommand (sshd -T -C user={user} | grep -i forcecommand), "
        f"for command= in its authorized_keys, and at its shell (getent passwd {user})",
    )
