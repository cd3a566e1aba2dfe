"""Directories of cgroups, versions 1 and 2, the values in their files, and the containers that they are of."""

from __future__ import annotations

import os
import re

from pylaunch.agent.shared.text import link_of, text_or_none

CGROUPS = "/sys/fs/cgroup"
UNLIMITED_V1 = 1 << 60
"""Version 1 reports "no limit" as a number near 2^63."""

_CONTAINER = re.compile(
    r"[-:/](?P<id>[0-9a-f]{64})(?:\.scope)?(?=/|\Z)|(?P<engine>apptainer|singularity)[-/](?P<pid>[0-9]{1,10})(?:\.scope)?(?=/|\Z)"
)
"""A directory of a container: of an engine of OCI by its id, of apptainer by the pid of its first process."""

SHOWN = 12
"""Digits of the id of a container that `docker ps` shows."""

FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of Linux."""

MOST_SIZE = 1 << 16
"""Bytes that are read of the cgroups of one process."""


def sees_all_pids() -> bool:
    """Return True if this process has the process ids that the kernel logs, outside of containers."""
    return link_of("/proc/self/ns/pid") == FIRST_PID_NAMESPACE


def container(pid: int) -> str:
    """Return the container of a process, and "" for none, that of this process, or a process that is gone.

    One without a cgroup of its own, as podman makes for users without a session, is known by its namespaces."""
    found = container_of(_membership(pid))
    if found:
        return "" if found == container_of(_membership(os.getpid())) else found
    kinds = [(link_of(f"/proc/{pid}/ns/{kind}"), link_of(f"/proc/self/ns/{kind}")) for kind in ("pid", "user")]
    return "a container" if any(theirs not in ("", own) for theirs, own in kinds) else ""


def _membership(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as source:
            return source.read(MOST_SIZE).decode("utf-8", "replace")
    except OSError:
        return ""


def container_of(membership: str) -> str:
    """Return the innermost container that `membership`, the content of /proc/PID/cgroup, names; "" for none.

    Users can give such names to cgroups below their own, so this is a text to show. The program that keeps a container
    (conmon) may have a cgroup with its name.
    """
    for line in membership.splitlines():
        for found in reversed([*_CONTAINER.finditer(line)]):
            return (
                f"container {found['id'][:SHOWN]}"
                if found["id"]
                else f"{found['engine']} container of pid {found['pid']}"
            )
    return ""


def oom_kills() -> int | None:
    """Return the number of processes that the kernel killed for lack of memory since boot; None if it is not known."""
    lines = (text_or_none("/proc/vmstat") or "").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def mounted(root: str, controller: str, controllers: str) -> str | None:
    """Return the mount point of the hierarchy of a controller, "" for version 2; None if it is not mounted."""
    names = (controller, controllers) if controller else ("", "unified")
    places = (os.path.join(root, name) if name else root for name in names)
    return next(filter(os.path.isdir, places), None)


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
