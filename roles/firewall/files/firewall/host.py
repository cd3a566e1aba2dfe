"""Access to this host: files, programs, units, and the port of the current SSH connection."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from typing import List, Optional

DEADLINE_S = 30


class RefusedError(Exception):
    """The action is refused; the message is for the user."""


def is_enabled(unit: str) -> bool:
    """Return True if systemd starts the unit at boot."""
    targets = ("sysinit.target.wants", "multi-user.target.wants")
    return any(os.path.lexists("/etc/systemd/system/%s/%s" % (target, unit)) for target in targets)


def is_active(unit: str) -> bool:
    """Return True if the unit is active."""
    return subprocess.run(["systemctl", "--quiet", "is-active", unit], check=False).returncode == 0


def run(words: List[str], stdin: str = "") -> str:
    """Run a program and return its stdout. Raises RefusedError if it fails."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    try:
        ended = subprocess.run(
            words, input=stdin.encode(), capture_output=True, timeout=DEADLINE_S, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(str(error)) from None
    if ended.returncode != 0:
        message = (ended.stderr or ended.stdout).decode("utf-8", "replace").strip()
        raise RefusedError("%s: %s" % (" ".join(words[:3]), message))
    return ended.stdout.decode("utf-8", "replace")


def write(path: str, text: str) -> None:
    """Write a file atomically."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


def text_of(path: str) -> str:
    """Return the content of a file, or an empty string if it does not exist."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def forget(path: str) -> None:
    """Remove a file if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def sha256(text: str) -> str:
    """Return the SHA-256 digest of `text`."""
    return hashlib.sha256(text.encode()).hexdigest()


def own_ssh_port() -> Optional[int]:
    """Return the local port of the SSH connection that runs this process.

    sudo removes the variable from our environment, so the environments of all ancestors are read.
    """
    pid = os.getpid()
    while pid > 1:
        with open("/proc/%d/environ" % pid, "rb") as file:
            for variable in file.read().split(b"\0"):
                if variable.startswith(b"SSH_CONNECTION="):
                    return int(variable.split()[-1])
        pid = int(text_of("/proc/%d/stat" % pid).rpartition(")")[2].split()[1])
    return None
