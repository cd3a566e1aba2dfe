"""Packages of the distribution: versions, holds, and the holder of the package manager's lock."""

from __future__ import annotations

import fcntl
import os
import pwd
import struct

from pylaunch.agent.probe.commands import output_of
from pylaunch.agent.probe.registry import reader, reader_of_each

_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` of 64-bit Linux: type, whence, start, length, pid (fcntl(2))."""


def holder(path: str) -> str | None:
    """Return the process that holds a POSIX lock on the file at `path` as a phrase; None if it is free.

    Raises OSError where the file is not there or cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else _described(pid)


def _described(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            name = file.read().strip()
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return f"pid {pid}"
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"user id {uid}"
    return f"pid {pid} ({name}) of {user}"


DEADLINE_S = 25.0
DPKG_VERSIONS = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status} ${Version}\n"]


@reader("packages.installed", DEADLINE_S)
def installed(names: list[str]) -> list[str | None]:
    """Return the installed version of each package; None for those that are not installed."""
    found = dpkg_versions(output_of([*DPKG_VERSIONS, "--", *names]))
    return [found.get(name) for name in names]


def dpkg_versions(output: str) -> dict[str, str]:
    """Return package → version of those completely installed, from the output of DPKG_VERSIONS."""
    rows = [line.split() for line in output.splitlines()]
    return {row[0]: row[2] for row in rows if len(row) == 3 and row[1] == "installed"}


@reader("packages.held", DEADLINE_S)
def held(names: list[str]) -> list[bool | None]:
    """Return for each package True where the package manager does not upgrade it; None if it is not installed."""
    output = output_of(["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Want}\n", "--", *names])
    wanted = dict(line.split() for line in output.splitlines() if len(line.split()) == 2)
    return [None if name not in wanted else wanted[name] == "hold" for name in names]


@reader_of_each("packages.lock_holder")
def lock_holder(path: str) -> str | None:
    """Return the process that holds the lock at `path` as a phrase; None if it is free."""
    return holder(path)
