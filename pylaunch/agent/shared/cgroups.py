"""Where the cgroups of a process are, versions 1 and 2, and what their files say."""

from __future__ import annotations

import os

CGROUPS = "/sys/fs/cgroup"
UNLIMITED_V1 = 1 << 60
"""Version 1 says "no limit" with a number near 2^63."""


def oom_kills() -> int | None:
    """Processes that the kernel killed for memory since boot."""
    with open("/proc/vmstat", encoding="ascii") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


def mounts(root: str, controller: str, controllers: str) -> list[str]:
    """Where the hierarchy of a controller may be mounted."""
    if not controller:
        return [root, os.path.join(root, "unified")]
    return [os.path.join(root, controller), os.path.join(root, controllers)]


def chain(mounted: str, path: str) -> list[str]:
    """A cgroup and those above it, up to the top of what we see of the hierarchy."""
    parts = [part for part in path.split("/") if part and part != ".."]
    return [os.path.join(mounted, *parts[:depth]) for depth in range(len(parts), -1, -1)]


def number(directory: str, name: str) -> int | None:
    """The number in a file of a cgroup; None for "max" and where there is no such file."""
    said = text(directory, name)
    return int(said) if said.lstrip("-").isdigit() else None


def text(directory: str, name: str) -> str:
    """A file of a cgroup; "" where there is none."""
    try:
        with open(os.path.join(directory, name), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
