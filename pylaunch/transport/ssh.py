"""How a command reaches a host: OpenSSH with the user's own configuration, one shared connection per host.

The connection is multiplexed and kept for a while (ControlMaster), under the same path that Ansible is told to use,
so that a host is greeted once. The path contains who connects to whom, and with what (`connection_identity`). Host keys
are always checked: against the user's known_hosts and the project's.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.argv import Argv, quoted
from pylaunch.model.cluster import Connection, Host
from pylaunch.transport import connection_identity

FAILED = 255
"""What ssh exits with when it is ssh that fails."""

CONNECT_TIMEOUT_S = 10
CONTROL_PERSIST_S = 120
SSH_PORT = 22
SHARING: Argv = ("-o", "ControlMaster=auto", "-o", f"ControlPersist={CONTROL_PERSIST_S}")
_UNSHARED: Argv = ("-o", "ControlPath=none")
SOCKET_PATH_LIMIT = 107
"""Bytes in the path of a Unix socket."""

SOCKET_NAME_LENGTH = len("/") + connection_identity.LENGTH + 40 + len(".") + 16
"""What follows the directory: the identity, ssh's hash `%C`, and a suffix while it makes the socket."""


def control_directory() -> Path:
    """Where the shared connections live: short (a socket path has 108 bytes), ours alone, gone at reboot.

    A long XDG_RUNTIME_DIR or TMPDIR is passed over.
    Raises ClusterNotReadyError when somebody else made the directory first, or it is none.
    """
    name = f"pylaunch-ssh-{os.getuid()}"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    parents = [runtime] if runtime and Path(runtime).is_dir() else []
    fitting = (
        directory
        for directory in (Path(parent) / name for parent in (*parents, tempfile.gettempdir()))
        if len(os.fsencode(directory)) + SOCKET_NAME_LENGTH <= SOCKET_PATH_LIMIT
    )
    directory = next(fitting, Path("/tmp") / name)
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
    except OSError as error:
        raise ClusterNotReadyError(
            f"{directory} is no directory that SSH connections can be kept in: {error.strerror}",
            hint=f"remove it, or run with XDG_RUNTIME_DIR set: ls -ld {directory}",
        ) from None
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ClusterNotReadyError(
            f"{directory} belongs to somebody else or is open to others, so SSH connections cannot be kept there",
            hint=f"remove it, or run with XDG_RUNTIME_DIR set: ls -ld {directory}",
        )
    return directory


def config_word(path: str) -> str:
    """`path` as one word of ssh's configuration language, where blanks separate and `%` expands."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def control_path(host: Host, known_hosts: str | None) -> str:
    """The path of the shared connection to `host`, as a word of ssh's configuration."""
    directory, name = config_word(str(control_directory())), connection_identity.identity(host, known_hosts)
    return f'{directory[:-1]}/{name}%C"'


def open_connections(address: str, user: str) -> list[Path]:
    """The sockets of all shared connections to `user` on port 22 of `address`, whatever their identity.

    ssh's `%C` is the SHA-1 of this machine's name, the address, the port and the user.
    """
    destination = f"{socket.gethostname()}{address}{SSH_PORT}{user}"
    digest = hashlib.sha1(destination.encode(), usedforsecurity=False).hexdigest()
    return sorted(control_directory().glob(f"*{digest}"))


def options(known_hosts: str | None) -> Argv:
    """Words for every ssh, ours and Ansible's alike, without those that share a connection."""
    files = [config_word(known_hosts)] if known_hosts is not None else []
    files += ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]
    return (
        "-o", "BatchMode=yes",
        "-o", "StrictHostKeyChecking=yes",
        "-o", "UserKnownHostsFile=" + " ".join(files),
        "-o", f"ConnectTimeout={CONNECT_TIMEOUT_S}",
        "-o", "ServerAliveInterval=3",
        "-o", "ServerAliveCountMax=3",
        "-o", "LogLevel=INFO",
    )  # fmt: skip


def command(host: Host, known_hosts: str | None, remote: Argv, *, shared: bool = True) -> Argv:
    """What to exec on the controller so that `remote` runs on `host`. A local host runs it directly.

    Not `shared` is a connection of its own, whatever else is open.
    Raises ClusterNotReadyError for a host that no inventory describes.
    """
    if host.connection is Connection.NONE:
        raise ClusterNotReadyError(f"{host.name} is not in the inventory, so it is not connected to")
    if host.connection is Connection.LOCAL:
        return remote
    sharing = (*SHARING, "-o", f"ControlPath={control_path(host, known_hosts)}") if shared else _UNSHARED
    return ("ssh", "-T", *sharing, *options(known_hosts), *destination(host), "exec " + quoted(remote))


def destination(host: Host) -> Argv:
    """Words that say where `host` is and who logs in: the last of ssh's own words, before the remote command."""
    ssh = host.ssh
    words = [*ssh.common_args]
    if ssh.port is not None:
        words += ["-p", str(ssh.port)]
    if ssh.user is not None:
        words += ["-l", ssh.user]
    if ssh.private_key is not None:
        words += ["-i", ssh.private_key, "-o", "IdentitiesOnly=yes"]
    return (*words, "--", host.address)


@dataclass(frozen=True)
class SshFailure:
    """Why a host could not be reached, and what to type next."""

    reason: str
    hint: str | None


_TRUST = "pylaunch trust --limit {host}"
_UP = "check that {host} is up and that its port {port} is open to this machine"
_BY_HAND = "try it by hand: {by_hand}"

_REASONS: tuple[tuple[str, str, str | None], ...] = (
    ("UNKNOWN port 65535", "not reached through its jump host",
     "the jump host's own key must be in ~/.ssh/known_hosts; " + _BY_HAND),
    ("Bad configuration option", "ssh does not accept its options",
     "correct ansible_ssh_common_args of {host}, or ~/.ssh/config"),
    ("IDENTIFICATION HAS CHANGED", "host key changed since it was trusted",
     "if the host was reinstalled, compare the fingerprint and run: pylaunch trust --replace --limit {host}"),
    ("No ED25519 host key is known", "host key unknown", _TRUST),
    ("No ECDSA host key is known", "host key unknown", _TRUST),
    ("No RSA host key is known", "host key unknown", _TRUST),
    ("Host key verification failed", "host key not accepted", _TRUST),
    ("no matching host key type found", "no host key of a kind that both sides accept", _BY_HAND),
    ("Unable to negotiate", "no algorithm that both sides accept", _BY_HAND),
    ("Identity file", "private key missing", "correct ansible_ssh_private_key_file of {host}"),
    ("UNPROTECTED PRIVATE KEY FILE", "private key open to others, so ssh does not use it",
     "make the key private with chmod 600"),
    ("Permission denied", "SSH authentication refused", _BY_HAND),
    ("Could not resolve hostname", "name does not resolve", "set ansible_host for {host} in the inventory"),
    ("Connection refused", "no SSH server answers", "start sshd on {host}, or correct ansible_port"),
    ("No route to host", "no route", _UP),
    ("Network is unreachable", "network unreachable", "correct ansible_host of {host}, or this machine's routes"),
    ("during banner exchange", "its SSH server says nothing",
     "{host} accepts connections and then hangs: frozen, or too busy for a login; look at its console"),
    ("timed out", "no answer", _UP),
    ("Connection closed by", "SSH server closed the connection", "on {host}: journalctl -u ssh"),
    ("kex_exchange_identification", "SSH server closed the connection", "on {host}: journalctl -u ssh"),
)  # fmt: skip

_QUOTED_LINE = {
    "UNKNOWN port 65535": r"^(?:ssh: )?(.*)$",
    "IDENTIFICATION HAS CHANGED": r"^(SHA256:\S+?)\.?$",
    "UNPROTECTED PRIVATE KEY FILE": r"^(Permissions .*)$",
}
"""What to quote when the line that names the trouble is not the one that tells it."""


def failure_of(host: Host, returncode: int, stderr: str) -> SshFailure | None:
    """Why `command` did not reach `host`; None when it did, however what ran there ended."""
    reached = returncode != FAILED or host.connection is Connection.LOCAL
    return None if reached else explain_failure(host, stderr)


def explain_failure(host: Host, stderr: str) -> SshFailure:
    """What ssh's stderr says about `host`: the known reasons in our words, else its last line as it is."""
    target = f"{host.ssh.user}@{host.address}" if host.ssh.user else host.address
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for needle, reason, hint in _REASONS:
        found = next((line for line in lines if needle in line), None)
        if found is not None:
            telling = re.search(_QUOTED_LINE.get(needle, "^$"), "\n".join(lines), re.MULTILINE)
            said = telling[1] if telling else found.removeprefix("ssh: ")
            return SshFailure(f"ssh {target}: {reason} ({said})", hint and _filled(hint, host))
    if not lines:  # As a channel does whose shared connection was lost.
        return SshFailure(f"ssh {target}: ssh ended without a word", f"check that {host.name} is up")
    return SshFailure(f"ssh {target}: {lines[-1]}", None)


def _filled(hint: str, host: Host) -> str:
    return hint.format(
        host=host.name,
        port=host.ssh.port or 22,
        by_hand=quoted(("ssh", *destination(host))),
    )
