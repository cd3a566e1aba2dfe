"""Shared connections (ControlMaster): the directory of their sockets, the path of each socket, closing them.

A connection stays open for CONTROL_PERSIST_S after its last command. Ansible uses the same paths, so each host is
logged in to once. The path contains the identity of the connection (`identity`).
"""

import hashlib
import os
import socket
import tempfile
from pathlib import Path

from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process
from pylaunch.transport.openssh.identity import LENGTH
from pylaunch.transport.openssh.options import SSH_PORT, config_word

CONTROL_PERSIST_S = 120
CLOSES_S = 60.0
"""For a shared connection to end; one that is stopped does not."""

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
            hint=f"remove it, or run with XDG_RUNTIME_DIR set: ls -ld {directory}",
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


def close_all(address: str, user: str) -> None:
    """Close all shared connections to `user` on port 22 of `address`, whatever their identity."""
    for path in _sockets(address, user):
        process.run(("ssh", "-O", "exit", "-o", f"ControlPath={path}", address), timeout_s=CLOSES_S)


def _sockets(address: str, user: str) -> list[Path]:
    """Return the sockets whose names end with ssh's `%C`: the SHA-1 of this machine's name, address, port and user."""
    destination = f"{socket.gethostname()}{address}{SSH_PORT}{user}"
    digest = hashlib.sha1(destination.encode(), usedforsecurity=False).hexdigest()
    return sorted(control_directory().glob(f"*{digest}"))
