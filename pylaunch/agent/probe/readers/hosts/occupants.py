"""Processes that use this host for training: they hold a GPU, listen on a port, or carry the variables of a rank or of
a run. And runs that hold leases.

Their ancestors and descendants are listed too: its family shows whether a process is left over. Only root sees what
processes of other users hold; users whose processes could not be read are listed.
"""

from __future__ import annotations

import os
import re
from typing import Any, Mapping

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import cgroups, leases, processes, programs, run_processes
from pylaunch.agent.shared.processes import RANK_VARIABLES, Process
from pylaunch.agent.shared.sockets import ports
from pylaunch.agent.shared.text import link_of, stat_of
from pylaunch.base.layout import RUN_ID, NodeRoot, default_root
from pylaunch.protocol.readings.hosts import LeaseHolder, LeasesReading, OccupantsReading, ProcessReading

DEVICE = re.compile(r"/dev/nvidia(\d+|ctl|-uvm)$")
SYSTEMCTL_DEADLINE_S = 5.0


@reader("occupants.processes", 20.0)
def occupants(question: Mapping[str, Any]) -> OccupantsReading:
    """Return the processes that hold a GPU or `ports`, or have variables of a rank or a run; and their families."""
    owned = [(process, owner) for process, owner in processes.owned_by(lambda _: True) if process.state != "Z"]
    table = {process.pid: process for process, _ in owned}
    owners = {process.pid: owner for process, owner in owned}
    listeners = {link: (port, uid) for port, uid, link in ports.listening() if port in question["ports"]}
    held: dict[int, tuple[set[str], set[int]]] = {}
    unseen: set[str] = set()
    marked: set[int] = set()
    of_runs: set[int] = set()
    for pid, uid in owners.items():
        links = processes.open_files(pid)
        if links is None:
            unseen.add(leases.user_name(uid))
            continue
        devices = {link for link in links if DEVICE.match(link)}
        taken = {listeners.pop(link)[0] for link in links if link in listeners}
        if devices or taken:
            held[pid] = (devices, taken)
        if processes.has_variables(pid, *RANK_VARIABLES):
            marked.add(pid)
        if processes.has_variables(pid, processes.RUN_MARK, processes.ROOT_MARK):  # Those of Ray are no ranks.
            of_runs.add(pid)
    ours = processes.descendants(table.values(), {os.getpid()}) | {os.getpid()}
    interesting = (set(held) | marked | of_runs) - ours
    shown = _ancestors(table, interesting) | processes.descendants(table.values(), interesting) | interesting
    rows = [_row(table[pid], owners[pid], held.get(pid, (set(), set())), pid in marked) for pid in sorted(shown - ours)]
    return {
        "uid": os.getuid(),
        "processes": rows,
        "listeners": [{"port": port, "user": leases.user_name(uid)} for port, uid in sorted(listeners.values())],
        "unseen": sorted(unseen),
    }


def _ancestors(table: Mapping[int, Process], pids: set[int]) -> set[int]:
    found: set[int] = set()
    for pid in pids:
        while pid in table and table[pid].parent not in found:
            pid = table[pid].parent
            found.add(pid)
    return found & set(table)


def _row(process: Process, uid: int, held: tuple[set[str], set[int]], is_marked: bool) -> ProcessReading:
    run, is_live = _run_of(process.pid)
    unit, is_main = _service(process)
    session, terminal = _session(process.pid)
    return {
        "pid": process.pid,
        "parent": process.parent,
        "started": process.started,
        "began": processes.start_time(process),
        "uid": uid,
        "user": leases.user_name(uid),
        "command": process.command[:300],
        "cwd": link_of(f"/proc/{process.pid}/cwd"),
        "rank": is_marked,
        "run": run,
        "run_is_live": is_live,
        "devices": sorted(held[0]),
        "ports": sorted(held[1]),
        "is_terminal": terminal != 0 and session == process.pid,
        "is_reaper": process.pid == 1 or unit == "init.scope",
        "service": unit if unit.endswith(".service") and is_main else "",
        "container": cgroups.container(process.pid),
    }


def _run_of(pid: int) -> tuple[str | None, bool]:
    """Return the run whose mark `pid` carries, and True if the run has a live supervisor."""
    env = processes.environment(pid)
    run, root = env.get(processes.RUN_MARK), env.get(processes.ROOT_MARK)
    if not run or not root or not RUN_ID.match(run):
        return None, False
    try:
        return run, run_processes.is_live(NodeRoot(root).run(run))
    except OSError:  # The root belongs to another user, whose run may be live.
        return run, True


def _session(pid: int) -> tuple[int, int]:
    """Return session id and controlling terminal (0: none)."""
    fields = stat_of(pid)
    return (int(fields[3]), int(fields[4])) if fields else (0, 0)


def _service(process: Process) -> tuple[str, bool]:
    """Return the systemd unit of a process, and True if it is the main process of the unit.

    A leftover of a login is in the cgroup of a session or of the SSH service, and never a main process. Also True for a
    process in a service if systemd cannot be queried, for example the systemd of a user.
    """
    try:
        with open(f"/proc/{process.pid}/cgroup", encoding="utf-8", errors="replace") as source:
            paths = [line.rstrip("\n").split(":", 2)[2] for line in source if line[:2] in ("0:", "1:")]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return "", False
    unit = os.path.basename(paths[-1]) if paths else ""
    if not unit.endswith(".service"):
        return unit, False
    if process.parent != 1 or programs.path_of("systemctl") is None:
        return unit, True
    words = ["systemctl", "show", "--property=MainPID", "--", unit]
    try:
        ended = programs.ended(words, deadline_s=SYSTEMCTL_DEADLINE_S)
    except TimeoutError:
        return unit, True
    return unit, ended.status != 0 or ended.output.strip() == f"MainPID={process.pid}"


@reader("lease.holders")
def held(question: Mapping[str, Any]) -> LeasesReading:
    """Return the holders of `devices` (indexes) under `root` and of `ports`, by index and port as text."""
    root = node_root(question["root"]).path
    names = {index: leases.device_name(index, root, default_root()) for index in question["devices"]}
    ports = {port: leases.port_name(port) for port in question["ports"]}
    return {"devices": _holders(names), "ports": _holders(ports)}


def node_root(template: str) -> NodeRoot:
    """Return the node root on this host, which may not exist, without creating it."""
    path = os.path.abspath(template.replace("{user}", str(os.getuid())))
    return NodeRoot(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)))


def _holders(names: Mapping[int, str]) -> dict[str, LeaseHolder]:
    holders = {str(index): leases.holder(name) for index, name in names.items()}
    return {index: _described(holder) for index, holder in holders.items() if holder is not None}


def _described(found: leases.Holder) -> LeaseHolder:
    return {
        "run": found.run,
        "user": found.user,
        "since": found.since,
        "is_ours": found.is_ours,
        "words": str(found),
    }
