"""Accounts that accept a login and do not run the command that ssh gives them: nologin, ForceCommand, command=.

Asked only when a command ended without what it should have printed: rc files and a missing Python look the same from
afar. Decided by a word that only a shell which obeys can print.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from pylaunch.model.argv import Argv
from pylaunch.model.cluster import Connection, Host
from pylaunch.transport.process import Completed, describe_exit
from pylaunch.transport.ssh import FAILED, SshFailure, command

TIMEOUT_S = 15.0
NOLOGIN = "This account is currently not available"
"""What nologin(8) prints, unless /etc/nologin.txt says otherwise."""


@dataclass(frozen=True)
class EchoCommand:
    """A command, and the line that it prints where it runs."""

    argv: Argv
    line: str


def proof(host: Host, known_hosts: str | None) -> EchoCommand | None:
    """What to run on `host`; None for this machine, where nobody logs in."""
    if host.connection is Connection.LOCAL:
        return None
    token = secrets.token_hex(8)
    # Computed there: a program that prints the command it was given does not print this.
    words = ("/bin/sh", "-c", 'echo "$1-$(($2 + 1))"', "sh", token, "41")
    return EchoCommand(command(host, known_hosts, words), f"{token}-42")


def explain(host: Host, asked: EchoCommand, ended: Completed) -> SshFailure | None:
    """Why `host` does not run our commands; None when it does, or ssh itself failed."""
    if ended.returncode == FAILED or any(line.strip() == asked.line for line in ended.stdout.splitlines()):
        return None
    user = host.ssh.user or "the user"
    target = f"{host.ssh.user}@{host.address}" if host.ssh.user else host.address
    lines = [line.strip() for line in (*ended.stdout.splitlines(), *ended.stderr.splitlines()) if line.strip()]
    other = f"log in as another user with ansible_user= of {host.name}"
    if any(NOLOGIN in line for line in lines):
        return SshFailure(
            f"login {target}: the account has no login shell: {NOLOGIN}",
            f"{other}, or as root on {host.name}: usermod --shell /bin/bash {user}",
        )
    said = f"it printed {lines[0][:120]!r}" if lines else "it printed nothing"
    return SshFailure(
        f"login {target}: the account does not run the command it is given: {said} ({describe_exit(ended.returncode)})",
        f"{other}, or on {host.name} look for ForceCommand (sshd -T -C user={user} | grep -i forcecommand), "
        f"for command= in its authorized_keys, and at its shell (getent passwd {user})",
    )
