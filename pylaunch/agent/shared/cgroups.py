"""Directories of cgroups, versions 1 and 2, and the values in their files."""

from __future__ import annotations

import os

from pylaunch.agent.shared.text import text_or_none

CGROUPS = "/sys/fs/cgroup"
UNLIMITED_V1 = 1 << 60
"""Version 1 reports "no limit" as a number near 2^63."""


def oom_kills() -> int | None:
    """Return the number of processes that the kernel killed for lack of memory since boot."""
    with open("/proc/vmstat", encoding="ascii") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


def mounts(root: str, controller: str, controllers: str) -> list[str]:
    """Return the possible mount points of the hierarchy of a controller."""
    if not controller:
        return [root, os.path.join(root, "unified")]
    return [os.path.join(root, controller), os.path.join(root, controllers)]


def chain(mounted: str, path: str) -> list[str]:
    """Return a cgroup and its ancestors, up to the top of the visible hierarchy."""
    parts = [part for part in path.split("/") if part and part != ".."]
    return [os.path.join(mounted, *parts[:depth]) for depth in range(len(parts), -1, -1)]


def number(directory: str, name: str) -> int | None:
    """Return the number in a file of a cgroup; None for "max" and without the file."""
    content = text(directory, name)
    return int(content) if content.lstrip("-").isdigit() else None


def text(directory: str, name: str) -> str:
    """Return the content of a file of a cgroup; "" without the file."""
    return text_or_none(os.path.join(directory, name)) or ""
