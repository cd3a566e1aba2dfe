"""All that is slow or doubtful before a run: look at all of it, take what must be taken, give every reason at once."""

from __future__ import annotations

import errno
import os
import socket
import time
from typing import Iterator

from pylaunch.agent import wire
from pylaunch.agent.run import programs, rank_interface
from pylaunch.agent.shared import leases, ports, rank_files
from pylaunch.agent.shared.layout import NodeRoot, RunDirectory, default_root

LOG_SPACE = 64 << 20
"""Bytes that must be free where the logs go."""


class Holdings:
    """What this node keeps for one run: its rendezvous port and its devices."""

    def __init__(self, task: wire.NodeTask, root: NodeRoot) -> None:
        self._task = task
        self._since = time.time()
        self._port: socket.socket | None = None
        self.port: int | None = task.hold_port
        """The rendezvous port: as told, or as chosen by `take`; None where this node has none."""

        self.leases: list[socket.socket] = []
        self._names = {index: leases.device_name(index, root.path, default_root()) for index in sorted(task.devices)}

    def take(self) -> list[wire.Reason]:
        """Take all of it; what could not be had, and who has it."""
        return [*self._take_devices(), *self._take_port()]

    def _take_devices(self) -> Iterator[wire.Reason]:
        taken = [index for index, name in self._names.items() if not self._bind(name)]
        found = leases.holders(self._names[index] for index in taken)
        for index in taken:
            holder = found[self._names[index]] or self._lease(self._names[index])
            if holder is not None:
                yield wire.Reason("device-leased", f"device {index} is leased to {holder}", _hint_for(holder))

    def _take_port(self) -> Iterator[wire.Reason]:
        if self._task.choose_port:
            yield from self._choose_port()
        elif self.port is not None:
            problem = self._hold(self.port)
            if problem is not None:
                yield problem

    def _choose_port(self) -> Iterator[wire.Reason]:
        candidates = ports.candidates()
        leased, used = [], []
        for port in candidates:
            if not self._bind(leases.port_name(port)):
                leased.append(port)
                continue
            try:
                self._port, self.port = ports.hold(port), port
                return
            except OSError as error:
                self.leases.pop().close()
                used.append((port, error))
        opened = ports.opened()
        hint = OTHER_PORT if opened is None else OPEN_MORE
        if not candidates:
            reason = "all are reserved" if opened is None else f"the firewall opens {ports.spans(opened) or 'none'}"
            yield wire.Reason("port-closed", f"no port can be chosen for the rendezvous: {reason}", hint)
            return
        where = "" if opened is None else ", of those that the firewall opens to the members,"
        text = f"none of {len(candidates)} ports for the rendezvous{where} is free ({ports.spans(candidates)})"
        by = [*_held_by(leased), *(_port_problem(*each).message for each in used[-1:])]
        yield wire.Reason("port-busy", "; ".join([text, *by]), hint)

    def _hold(self, port: int) -> wire.Reason | None:
        """Take `port`, lease and all, or say why it cannot be had."""
        holder = self._lease(leases.port_name(port))
        if holder is not None:
            text = f"port {port} is held for {holder}"
            return wire.Reason("port-leased", text, _hint_for(holder) or OTHER_PORT)
        try:
            self._port = ports.hold(port)
        except OSError as error:
            self.leases.pop().close()
            return _port_problem(port, error)
        return None

    def _bind(self, name: str) -> bool:
        lease = leases.bind(name)
        if lease is not None:
            self.leases.append(lease)
        return lease is not None

    def _lease(self, name: str) -> leases.Holder | None:
        taken = leases.take(name)
        if isinstance(taken, leases.Holder):
            return taken
        self.leases.append(taken)
        return None

    def answer(self, lease: socket.socket) -> None:
        """Tell who asks for a lease of ours which run has it."""
        leases.answer(lease, self._task.run, self._task.devices, self._since)

    def drop(self) -> None:
        """Give everything back."""
        for held in [*self.leases, *([self._port] if self._port is not None else [])]:
            held.close()
        self.leases = []
        self._port = None

    def still_taken(self) -> Iterator[str]:
        """After the run and after `drop`: what somebody has all the same, one phrase each."""
        found = leases.holders(self._names.values())
        for index, name in self._names.items():
            holder = found[name]
            if holder is not None and holder.is_ours and holder.run == self._task.run:
                yield f"device {index} is still leased to {holder}"
        if self.port is not None:
            listener = ports.listener(self.port)
            if listener is not None and listener.run == self._task.run:
                yield f"port {self.port} is still held by {listener}"


OTHER_WORKDIR = "take the code along with --sync ., or choose a directory that every node has: --workdir DIR"
OTHER_PORT = "choose another port with --port"
OPEN_MORE = "add 29400-29599 or other free ports to firewall_member_ports, and pylaunch provision --roles firewall"


MOST_HOLDERS = 3
"""How many different holders of ports are named."""


def _held_by(leased: list[int]) -> Iterator[str]:
    """The holders of the leases of ports, each with its ports."""
    found = leases.holders(map(leases.port_name, leased))
    by_holder: dict[str, list[int]] = {}
    for port in leased:
        by_holder.setdefault(str(found[leases.port_name(port)] or "one that is gone now"), []).append(port)
    for holder, held in list(by_holder.items())[:MOST_HOLDERS]:
        yield f"{ports.spans(held)}: held for {holder}"
    if len(by_holder) > MOST_HOLDERS:
        yield f"others: held for {len(by_holder) - MOST_HOLDERS} more"


def _hint_for(holder: leases.Holder) -> str:
    """How to end the run of `holder`; "" for one of another user, whose words lead nowhere."""
    return _stop_hint(holder.run) if holder.is_ours and holder.run != leases.PROBE else ""


def _stop_hint(run: str | None) -> str:
    return f"pylaunch stop {run}" if run else ""


def _port_problem(port: int, error: OSError) -> wire.Reason:
    if error.errno != errno.EADDRINUSE:
        return wire.Reason("port-unusable", f"port {port} cannot be taken: {error.strerror}", OTHER_PORT)
    found = ports.listener(port)
    if found is None:
        return wire.Reason("port-busy", f"port {port} is held by a process that cannot be seen", OTHER_PORT)
    belongs = f", run {found.run}" if found.run else ""
    return wire.Reason("port-busy", f"port {port} is held by {found}{belongs}", _stop_hint(found.run) or OTHER_PORT)


def problems(task: wire.NodeTask, directory: RunDirectory) -> list[wire.Reason]:
    """Why this node cannot do `task`, apart from what must be taken."""
    network = [*_hostname(task), *_loopback(task), *rank_interface.problems(task)]
    return [*_workdir(task), *programs.problems(task), *_needs(task), *_logs(directory), *network]


def _workdir(task: wire.NodeTask) -> Iterator[wire.Reason]:
    if not os.path.isdir(task.workdir):
        found = "is not a directory" if os.path.lexists(task.workdir) else "does not exist"
        yield wire.Reason(
            "workdir-missing",
            f"working directory {task.workdir} {found}",
            "take the code along with --sync ., or choose a directory that every node has: --workdir DIR",
        )
    elif not os.access(task.workdir, os.R_OK | os.X_OK):
        yield wire.Reason("workdir-closed", f"working directory {task.workdir} may not be entered", "")


def _needs(task: wire.NodeTask) -> Iterator[wire.Reason]:
    for need in task.needs:
        path = os.path.join(task.workdir, need.path)
        if not os.path.exists(path):
            yield wire.Reason("path-missing", f"{path} does not exist", need.hint)


def _logs(directory: RunDirectory) -> Iterator[wire.Reason]:
    probe = directory.stream(".probe")
    try:
        os.makedirs(directory.logs, mode=0o700, exist_ok=True)
        rank_files.replace(probe, b"0" * 4096)
        os.unlink(probe)
        status = os.statvfs(directory.logs)
    except OSError as error:
        code = "disk-full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "logs-not-writable"
        yield wire.Reason(code, f"log directory {directory.logs}: {error.strerror}", f"df -h {directory.path}")
        return
    free = status.f_bavail * status.f_frsize
    if free < LOG_SPACE:
        text = f"disk full: {free / (1 << 20):.1f} MiB free in {directory.logs}, {LOG_SPACE >> 20} MiB wanted for logs"
        yield wire.Reason("disk-full", text, f"df -h {directory.path}")


def _hostname(task: wire.NodeTask) -> Iterator[wire.Reason]:
    """gloo listens at what the host's own name resolves to. torch's can be told an interface instead, JAX's cannot."""
    is_told = task.gloo == "torch" and "GLOO_SOCKET_IFNAME" in task.env
    if not task.gloo or is_told or task.world_size <= len(task.ranks):
        return
    name = socket.gethostname()
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(name, None, socket.AF_INET)}
    except OSError:
        return
    loopback = sorted(address for address in addresses if address.startswith("127."))
    if loopback:
        text = f"its own host name resolves to {loopback[0]}, where no other node can reach it"
        yield wire.Reason("hostname-loopback", text, "pylaunch provision --roles host_baseline")


def _loopback(task: wire.NodeTask) -> Iterator[wire.Reason]:
    """A node that was provisioned as the only one keeps its ranks to itself until it is provisioned again."""
    chosen = [name for name in rank_interface.INTERFACES if task.env.get(name, "").lstrip("=") == "lo"]
    if task.machines > 1 and chosen:
        text = f"{', '.join(chosen)} is lo here, over which none of the other machines can be reached"
        yield wire.Reason("loopback-interface", text, "pylaunch provision --roles nccl_env")
