"""Memory, file systems and limits of the machine."""

from __future__ import annotations

import os
import re
import resource
from typing import Any

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared.text import meminfo, unreachable
from pylaunch.protocol.readings.hosts import (
    FilesystemReading,
    KernelReading,
    MemoryReading,
    ResourceLimit,
)


def refusal(directory: str) -> str:
    """Return the error of writing and syncing a small file in `directory`; "" if it succeeds. The file is removed."""
    # A unique name, because several hosts may check one shared directory.
    path = os.path.join(directory, f".pylaunch-check-{os.urandom(8).hex()}")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, b"0" * 4096)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            os.unlink(path)
    except OSError as error:
        return error.strerror or str(error)
    return ""


LIMITS = {
    "open files": resource.RLIMIT_NOFILE,
    "locked memory": resource.RLIMIT_MEMLOCK,
    "processes": resource.RLIMIT_NPROC,
}


@reader("host.filesystem", 3.0)
def filesystem(question: dict[str, Any]) -> FilesystemReading:
    """Return space (bytes) and inodes of the file system of `path`; "" is the directory of temporary files.

    With `write`, write and sync a small file in the directory, if it exists, and remove it; `refused` is the error,
    also one that hides whether the directory exists.
    """
    asked = (question["path"] or os.environ.get("TMPDIR") or "/tmp").replace("{user}", str(os.getuid()))
    path = asked
    while not os.path.lexists(path) and path != "/":
        path = os.path.dirname(path)
    found = os.statvfs(path)
    return {
        "asked": asked,
        "exists": path == asked and os.path.isdir(path),
        "mount": mount_of(path)[0],
        "size": found.f_blocks * found.f_frsize,
        "free": found.f_bavail * found.f_frsize,
        "inodes": found.f_files,
        "inodes_free": found.f_favail,
        "read_only": bool(found.f_flag & os.ST_RDONLY),
        "refused": refusal(asked) if question.get("write") and os.path.isdir(asked) else unreachable(asked),
    }


@reader("host.shm")
def shm(question: None) -> FilesystemReading:
    """Return the file system of /dev/shm."""
    return filesystem({"path": "/dev/shm"})


def mount_of(path: str) -> tuple[str, str]:
    """Return mount point and type of the file system of `path`."""
    real = os.path.realpath(path)
    best = "/", ""
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            at, kind = [unescaped(word) for word in line.split()[1:3]]
            if (real == at or real.startswith(at.rstrip("/") + "/")) and len(at) >= len(best[0]):
                best = at, kind
    return best


def unescaped(word: str) -> str:
    """Return a field of /proc/mounts with its octal escapes replaced."""
    if "\\" not in word:
        return word
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), word)


@reader("host.limits")
def limits(question: None) -> dict[str, ResourceLimit]:
    """Return the resource limits of a login, which ranks inherit, in bytes and counts; None is unlimited."""
    found: dict[str, ResourceLimit] = {}
    for name, number in LIMITS.items():
        soft = resource.getrlimit(number)[0]
        found[name] = {"soft": finite(soft)}
    return found


def finite(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit


@reader("host.memory")
def memory(question: None) -> MemoryReading:
    """Return physical memory in bytes."""
    found = meminfo()
    return {"total": found["MemTotal"], "available": found["MemAvailable"]}


@reader("host.kernel")
def kernel(question: None) -> KernelReading:
    """Return the kernel release and the architecture."""
    return {
        "release": os.uname().release,
        "machine": os.uname().machine,
    }
