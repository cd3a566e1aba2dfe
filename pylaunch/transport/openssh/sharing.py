"""Words of ssh's command line, and shared connections (ControlMaster): the path of each socket, and closing them.

A connection stays open for CONTROL_PERSIST_S after its last command. Ansible uses the same paths, so each host is
logged in to once. The path contains the identity of the connection (`identity`).

A shared connection outlives the command that opened it, and a command that reuses it presents no key and checks no host
key. So its identity is a hash of destination, credentials and trust: a command with another key, other known hosts or
another route to the host opens a connection of its own, which OpenSSH accepts or refuses.
"""

import hashlib
import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Host
from pylaunch.model.text.argv import Argv, quoted

CONNECT_TIMEOUT_S = 10


ALIVE_S, ALIVE_COUNT = 3, 3


SSH_PORT = 22


OWN_COMMAND = ("-o", "RemoteCommand=none")
"""A RemoteCommand of ~/.ssh/config, as of tmux, is for a terminal, and refuses other commands."""


def config_word(path: str) -> str:
    """Return `path` as one word of ssh's configuration language, where blanks separate and `%` expands."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def options(known_hosts: str | None) -> Argv:
    """Return the options of every ssh, pylaunch's and Ansible's, except those that share a connection.

    ssh takes the first value of an option, so these win over the user's own words, which come later.
    """
    return (
        "-o", "BatchMode=yes",
        *trust(known_hosts),
        "-o", f"ConnectTimeout={CONNECT_TIMEOUT_S}",
        "-o", f"ServerAliveInterval={ALIVE_S}",
        "-o", f"ServerAliveCountMax={ALIVE_COUNT}",
        "-o", "LogLevel=INFO",
        *OWN_COMMAND,
    )  # fmt: skip


def trust(known_hosts: str | None) -> Argv:
    """Return the options that check host keys against the project's `known_hosts` and the user's own."""
    files = [config_word(known_hosts)] if known_hosts is not None else []
    files += ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]
    return ("-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile=" + " ".join(files))


def destination(host: Host) -> Argv:
    """Return the words for port, user, key and address of `host`: the last of ssh's words before the command."""
    ssh = host.ssh
    words = [*ssh.common_args]
    if ssh.port is not None:
        words += ["-p", str(ssh.port)]
    if ssh.user is not None:
        words += ["-l", ssh.user]
    if ssh.private_key is not None:
        words += ["-i", ssh.private_key, "-o", "IdentitiesOnly=yes"]
    return (*words, "--", host.address)


def target(host: Host) -> str:
    """Return `user@address`, or the address where the inventory names no user."""
    return f"{host.ssh.user}@{host.address}" if host.ssh.user else host.address


LENGTH = 16
"""Hexadecimal digits: 64 bits."""

_SYSTEM = Path("/etc/ssh")
_DEPTH = 2
"""Levels of directories below ~/.ssh and /etc/ssh that are read: configurations may be split."""


def identity(host: Host, known_hosts: str | None) -> str:
    """Return the identity of a connection to `host` with the project's `known_hosts`.

    Host: address, port, user, arguments (jump hosts, proxies). Credentials: the private key, its certificate, the
    SSH agent. Trust: `known_hosts`. Beyond that, every file in ~/.ssh and /etc/ssh.
    """
    home = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh"
    key = None if host.ssh.private_key is None else Path(host.ssh.private_key).expanduser().absolute()
    certificate = None if key is None else key.with_name(f"{key.name}-cert.pub")
    parts = [
        host.address,
        repr(host.ssh),
        os.environ.get("SSH_AUTH_SOCK", ""),
        *(_file(path) for path in (key, certificate, (known_hosts and Path(known_hosts)) or None)),
        *(_file(path) for path in _files(home, _DEPTH)),
        *(_file(path) for path in _files(_SYSTEM, _DEPTH)),
    ]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:LENGTH]


def _files(directory: Path, depth: int) -> Iterator[Path]:
    """Return the regular files in `directory` in order, without the sockets of shared connections."""
    try:
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        if entry.is_file():
            yield Path(entry.path)
        elif depth > 1 and entry.is_dir():
            yield from _files(Path(entry.path), depth - 1)


def _file(path: Path | None) -> str:
    """Return a text that changes when the file at `path` is replaced or written."""
    if path is None:
        return ""
    try:
        status = path.stat()
    except OSError:
        return f"{path} does not exist"
    return f"{path} {status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns}"


CONTROL_PERSIST_S = 120

SHARED: Argv = ("-o", "ControlMaster=auto", "-o", f"ControlPersist={CONTROL_PERSIST_S}")
UNSHARED: Argv = ("-o", "ControlPath=none")
SOCKET_PATH_LIMIT = 107
"""Bytes in the path of a Unix socket."""

SOCKET_NAME_LENGTH = len("/") + LENGTH + 40 + len(".") + 16
"""Bytes after the directory: the identity, ssh's hash `%C`, and ssh's suffix while it creates the socket."""


def control_directory() -> Path:
    """Return the directory of the sockets, creating it: private to the user, gone at reboot, and short.

    A directory under XDG_RUNTIME_DIR or TMPDIR is skipped where a socket path would exceed its 108 bytes.
    Raises ClusterNotReadyError when the directory belongs to another user, is open to others, or is no directory.
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
            f"{directory} cannot be used as the directory of SSH connections: {error.strerror}",
            hint="make it usable, or choose another directory: XDG_RUNTIME_DIR=DIR",
        ) from None
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ClusterNotReadyError(
            f"{directory} belongs to another user or is open to others, so SSH connections cannot be kept there",
            hint=f"remove it, or run with XDG_RUNTIME_DIR set: ls -ld {quoted((str(directory),))}",
        )
    return directory


def control_path(identity: str) -> str:
    """Return the path of the shared connection with this identity, quoted for ssh's configuration."""
    return f'{config_word(str(control_directory()))[:-1]}/{identity}%C"'


def open_connections() -> frozenset[str]:
    """Return the identities of the shared connections that are open."""
    with os.scandir(control_directory()) as entries:
        # A name with a dot is a socket that ssh is about to rename.
        return frozenset(entry.name[:LENGTH] for entry in entries if "." not in entry.name)
