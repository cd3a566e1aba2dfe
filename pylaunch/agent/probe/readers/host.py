"""Memory, file systems, limits and processors of the machine."""

from __future__ import annotations

import os
import re
import resource
import tempfile
import time
from typing import TYPE_CHECKING, Any

from pylaunch.agent.probe.registry import reader

if TYPE_CHECKING:
    from pylaunch.agent.probe.readings import (
        FilesystemReading,
        KernelReading,
        MemoryReading,
        ProcessorsReading,
        ResourceLimit,
    )

WRITTEN = 4096
"""Bytes of the file that is written to see whether a directory can be written to."""

LIMITS = {
    "open files": resource.RLIMIT_NOFILE,
    "locked memory": resource.RLIMIT_MEMLOCK,
    "stack": resource.RLIMIT_STACK,
    "processes": resource.RLIMIT_NPROC,
}


@reader("host.filesystem", 3.0)
def filesystem(question: dict[str, Any]) -> FilesystemReading:
    """Space, inodes and kind of the file system that `path` is on; `path` "" is where temporary files go.

    With `write`, and where the directory exists, a small file is written there, brought to the disk and removed:
    `refused` is what came of it. Bytes and counts.
    """
    asked = (question["path"] or tempfile.gettempdir()).replace("{user}", str(os.getuid()))
    path = asked
    while not os.path.lexists(path) and path != "/":
        path = os.path.dirname(path)
    found = os.statvfs(path)
    mount = mount_of(path)
    return {
        "asked": asked,
        "exists": path == asked and os.path.isdir(path),
        "mount": mount["at"],
        "type": mount["type"],
        "source": mount["source"],
        "size": found.f_blocks * found.f_frsize,
        "free": found.f_bavail * found.f_frsize,
        "inodes": found.f_files,
        "inodes_free": found.f_favail,
        "read_only": bool(found.f_flag & os.ST_RDONLY),
        "refused": refusal(asked) if question.get("write") and os.path.isdir(asked) else "",
    }


@reader("host.shm")
def shm(question: None) -> FilesystemReading:
    """The same of /dev/shm."""
    return filesystem({"path": "/dev/shm"})


def mount_of(path: str) -> dict[str, str]:
    """The mount that `path` is on: where it is, its kind and its source."""
    real = os.path.realpath(path)
    best = {"at": "/", "type": "", "source": ""}
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            source, at, kind = [unescaped(word) for word in line.split()[:3]]
            inside = real == at or real.startswith(at.rstrip("/") + "/")
            if inside and len(at) >= len(best["at"]):
                best = {"at": at, "type": kind, "source": source}
    return best


def unescaped(word: str) -> str:
    """Return a field of /proc/mounts with its octal escapes replaced."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), word)


def refusal(directory: str) -> str:
    """Why a small file cannot be written in `directory`; "" when it can, and is removed again."""
    try:
        # Its own name, so that two checks at one shared directory do not meet.
        with tempfile.NamedTemporaryFile(prefix=".pylaunch-check-", dir=directory) as probe:
            probe.write(b"0" * WRITTEN)
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return ""


@reader("host.limits")
def limits(question: None) -> dict[str, ResourceLimit]:
    """Limits of a process that a login starts, as a rank is; null is unlimited. Bytes and counts."""
    found: dict[str, ResourceLimit] = {}
    for name, number in LIMITS.items():
        soft, hard = resource.getrlimit(number)
        found[name] = {"soft": finite(soft), "hard": finite(hard)}
    return found


def finite(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit


@reader("host.memory")
def memory(question: None) -> MemoryReading:
    """Physical memory and swap, in bytes."""
    lines = text_of("/proc/meminfo").splitlines()
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return {
        "total": kib["MemTotal"] << 10,
        "available": kib["MemAvailable"] << 10,
        "swap": kib["SwapTotal"] << 10,
        "swap_used": (kib["SwapTotal"] - kib["SwapFree"]) << 10,
    }


@reader("host.processors")
def processors(question: None) -> ProcessorsReading:
    """Processors, those that we may use, how their frequency is governed, and the memory nodes behind them."""
    base = "/sys/devices/system/cpu"
    names = [name for name in listed(base) if name[:3] == "cpu" and name[3:].isdigit()]
    governors = {text_or_none(f"{base}/{name}/cpufreq/scaling_governor") for name in names}
    drivers = {text_or_none(f"{base}/{name}/cpufreq/scaling_driver") for name in names}
    nodes = [name for name in listed("/sys/devices/system/node") if name[:4] == "node" and name[4:].isdigit()]
    return {
        "count": os.cpu_count(),
        "usable": len(os.sched_getaffinity(0)),
        "governors": sorted(each for each in governors if each),
        "drivers": sorted(each for each in drivers if each),
        "memory_nodes": len(nodes) or 1,
        "balancing": text_or_none("/proc/sys/kernel/numa_balancing"),
    }


def listed(directory: str) -> list[str]:
    """Names in a directory; none where there is no such directory."""
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def text_of(path: str) -> str:
    """A file as text; bytes that are none do not stop us."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def text_or_none(path: str) -> str | None:
    """A small file without its newline; None where there is none or it says nothing."""
    try:
        return text_of(path).strip()
    except OSError:
        return None


@reader("host.kernel")
def kernel(question: None) -> KernelReading:
    """The kernel, what it measures time with, and how long it has been up (seconds)."""
    return {
        "release": os.uname().release,
        "machine": os.uname().machine,
        "clock_source": text_or_none("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "up_s": time.clock_gettime(time.CLOCK_BOOTTIME),
    }
