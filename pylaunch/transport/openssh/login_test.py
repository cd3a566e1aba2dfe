"""Detect accounts that accept a login and ignore the command: nologin shells, ForceCommand, command=.

The test runs only after a command ended without the expected output: a missing Python looks the same.
"""

from __future__ import annotations

import secrets

from pylaunch.model.argv import Argv
from pylaunch.model.cluster import Host
from pylaunch.transport.connector import ConnectionFailure
from pylaunch.transport.openssh.options import target
from pylaunch.transport.process import Completed, describe_exit

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
