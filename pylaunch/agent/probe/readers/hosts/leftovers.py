"""Leases of devices and ports, and leftover processes and files of earlier runs, of pylaunch and other launchers."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Iterable, Iterator, Mapping

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import leases, processes, run_processes
from pylaunch.base.layout import NodeRoot, default_root
from pylaunch.protocol.readings.hosts import LeaseHolder, LeasesReading, SharedMemoryReading, StaleProcess


@reader("lease.holders")
def held(question: Mapping[str, Any]) -> LeasesReading:
    """Return the holders of `devices` (indexes) under `root` and of `ports`, by index and port as text."""
    root = node_root(question["root"]).path
    names = {index: leases.device_name(index, root, default_root()) for index in question["devices"]}
    ports = {port: leases.port_name(port) for port in question["ports"]}
    found = leases.holders([*names.values(), *ports.values()])
    return {"devices": _holders(names, found), "ports": _holders(ports, found)}


def node_root(template: str) -> NodeRoot:
    """Return the node root on this host, which may not exist, without creating it."""
    path = os.path.abspath(template.replace("{user}", str(os.getuid())))
    return NodeRoot(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)))


def _holders(names: Mapping[int, str], found: Mapping[str, leases.Holder | None]) -> dict[str, LeaseHolder]:
    holders = {index: found[name] for index, name in names.items()}
    return {str(index): _words(holder) for index, holder in holders.items() if holder is not None}


def _words(found: leases.Holder) -> LeaseHolder:
    return {
        "run": found.run,
        "user": found.user,
        "since": found.since,
        "pid": found.pid,
        "is_ours": found.is_ours,
        "words": str(found),
    }


SHARED_MEMORY = "/dev/shm"
SHARED_NAMES = re.compile(r"psm_[0-9a-f]+|torch_(?P<pid>\d+)_.*|nccl-\w+|sem\.(mp-|loky-).*|pym-(?P<pym>\d+)-.*")
"""Files of multiprocessing, PyTorch, NCCL and joblib; some names contain the id of their process."""


YOUNG_S = 30.0
"""Age below which a file may belong to a process that has not opened it yet."""


@reader("leftovers.stale")
def stale(template: str) -> list[StaleProcess]:
    """Return the processes of runs whose supervisor is dead."""
    found: list[StaleProcess] = []
    for process, run in run_processes.orphans(node_root(template), processes.mine()):
        if process.state != "Z":
            begun = processes.start_time(process)
            age_s = round(time.time() - begun)
            found.append({"pid": process.pid, "command": process.command[:200], "run": run, "age_s": age_s})
    return found


@reader("leftovers.shared_memory")
def shared_memory(question: None) -> SharedMemoryReading:
    """Return the files in /dev/shm that no process has open or mapped, and their total bytes."""
    mine = os.getuid()
    candidates = {}
    for path, status in statuses(SHARED_MEMORY, os.listdir(SHARED_MEMORY)):
        found = SHARED_NAMES.fullmatch(os.path.basename(path))
        young = time.time() - status.st_ctime < YOUNG_S
        maker = found and next((number for number in found.groupdict().values() if number), None)
        alive = os.path.exists(f"/proc/{maker}") if maker else young
        if found and not alive and mine in (0, status.st_uid):
            candidates[path] = status.st_blocks * 512
    used = in_use(SHARED_MEMORY + "/") if candidates else set()
    left = {path: size for path, size in candidates.items() if path not in used}
    return {"files": sorted(left), "bytes": sum(left.values())}


def statuses(directory: str, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and status of those `names` that still exist in `directory`: files may vanish at any time."""
    for name in names:
        path = os.path.join(directory, name)
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        yield path, status


def in_use(prefix: str) -> set[str]:
    """Return the files below `prefix` that a readable process has mapped or open."""
    found: set[str] = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/maps", encoding="utf-8", errors="replace") as file:
                found.update(line.split(None, 5)[5].strip() for line in file if prefix in line)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        found.update(target for target in processes.open_files(int(name)) or () if target.startswith(prefix))
    return found
