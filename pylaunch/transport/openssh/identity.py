"""The identity of an SSH connection: a hash of destination, credentials and trust.

A shared connection outlives the command that opened it, and a command that reuses it presents no key and checks no host
key. So the path of its socket contains the identity: a command with another key, other known hosts or another route to
the host opens a connection of its own, which OpenSSH accepts or refuses.
"""

import hashlib
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from pylaunch.model.cluster import Host

LENGTH = 16
"""Hexadecimal digits: 64 bits."""

_SYSTEM = Path("/etc/ssh")
_DEPTH = 2
"""Levels of directories below ~/.ssh and /etc/ssh that are read: configurations may be split."""


def identity(host: Host, known_hosts: str | None) -> str:
    """Return the identity of a connection to `host` with the project's `known_hosts`.

    Host: address, port, user, arguments (jump hosts, proxies). Credentials: the private key, its certificate, the
    SSH agent. Trust: the content of `known_hosts`. Beyond that, every file in ~/.ssh and /etc/ssh.
    """
    home = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh"
    key = None if host.ssh.private_key is None else Path(host.ssh.private_key).expanduser().absolute()
    certificate = None if key is None else key.with_name(f"{key.name}-cert.pub")
    parts = [
        host.address,
        repr(host.ssh),
        os.environ.get("SSH_AUTH_SOCK", ""),
        *(_file(path) for path in (key, certificate)),
        _content(known_hosts),
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


def _content(path: str | None) -> str:
    if path is None:
        return ""
    try:
        return f"{path} {hashlib.sha256(Path(path).read_bytes()).hexdigest()}"
    except OSError:
        return f"{path} does not exist"
