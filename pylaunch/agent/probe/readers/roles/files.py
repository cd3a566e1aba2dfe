"""Files of this host that roles manage."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import re
from typing import Any, Callable

from pylaunch.agent.probe.registry import reader_of_each
from pylaunch.agent.shared.text import text_of
from pylaunch.protocol.readings.roles import FileReading

DEADLINE_S = 20.0


@reader_of_each("files.file", DEADLINE_S)
def file(path: str) -> FileReading:
    """Return the digest, mode and owner of a file."""
    status = os.stat(path)
    with open(path, "rb") as source:
        digest = hashlib.sha256(source.read()).hexdigest()
    return {
        "sha256": digest,
        "mode": "%04o" % (status.st_mode & 0o7777),
        "owner": named(pwd.getpwuid, status.st_uid),
        "group": named(grp.getgrgid, status.st_gid),
    }


def named(lookup: Callable[[int], Any], number: int) -> str:
    """Return the name of a user or group id, or the id itself."""
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


@reader_of_each("files.exists", DEADLINE_S)
def exists(path: str) -> bool:
    """Return True for a path that exists."""
    return os.path.exists(path)


@reader_of_each("files.mode", DEADLINE_S)
def mode(path: str) -> str:
    """Return the mode of a file or device."""
    return "%04o" % (os.stat(path).st_mode & 0o7777)


@reader_of_each("files.text", DEADLINE_S)
def text(path: str) -> str:
    """Return the content of a text file."""
    return text_of(path)


@reader_of_each("files.block", DEADLINE_S)
def block(question: dict[str, str]) -> str | None:
    """Return the lines of `path` between the lines `begin` and `end`; None without them."""
    lines = text_of(question["path"]).splitlines()
    try:
        begin = lines.index(question["begin"])
        return "\n".join(lines[begin + 1 : lines.index(question["end"], begin)])
    except ValueError:
        return None


@reader_of_each("files.lines", DEADLINE_S)
def lines(question: dict[str, str]) -> list[str]:
    """Return the lines of `path` that match `regexp`."""
    return [line for line in text_of(question["path"]).splitlines() if re.search(question["regexp"], line)]


@reader_of_each("files.link", DEADLINE_S)
def link(path: str) -> str:
    """Return the target of a symbolic link."""
    return os.readlink(path)


@reader_of_each("files.filesystem", DEADLINE_S)
def filesystem(path: str) -> int:
    """Return the size of a file system in MiB."""
    status = os.statvfs(path)
    return status.f_blocks * status.f_frsize // (1 << 20)
