"""Rendezvous port, device leases and lock of the Python environment that this node holds for one run."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterable, Iterator
from functools import partial

from pylaunch import protocol
from pylaunch.agent.shared import cgroups, leases, rank_files
from pylaunch.agent.shared.essentials import environment_of
from pylaunch.agent.shared.event_loop import EventLoop, Part
from pylaunch.agent.shared.installed import MARKER
from pylaunch.agent.shared.sockets import ports
from pylaunch.base.layout import NodeRoot, default_root

OTHER_PORT = "choose another port with --port"
OPEN_MORE = "add 29400-29599 or other free ports to firewall_member_ports, and pylaunch provision --roles firewall"


class Holdings(Part):
    """Rendezvous port, devices and environment of one run, bound, leased and locked until `drop`."""

    def __init__(self, task: protocol.NodeTask, root: NodeRoot) -> None:
        self._task = task
        self._port: socket.socket | None = None
        self._environment: int | None = None
        self.port: int | None = task.hold_port
        """Rendezvous port, from the task or chosen by `take`; None where this node has none."""

        self.leases: list[socket.socket] = []
        self._names = {index: leases.device_name(index, root.path, default_root()) for index in sorted(task.devices)}

    def take(self) -> list[protocol.Reason]:
        """Take the devices and the port; return a reason, with the holder, for each that is taken."""
        self._share_environment()
        return [*self._take_devices(), *self._take_port()]

    def _share_environment(self) -> None:
        """Share the lock of a provisioned environment: the role python_env removes none that a run has locked.

        Any user can lock the file, so a lock that is held, or that the file system lacks, refuses no start.
        """
        marker = os.path.join(environment_of(self._task.python), MARKER)
        try:
            self._environment = rank_files.open_regular(marker)
            fcntl.flock(self._environment, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return

    def _take_devices(self) -> Iterator[protocol.Reason]:
        for index, name in self._names.items():
            holder = self._lease(name)
            if holder is not None:
                yield protocol.Reason("device-leased", f"device {index} is leased to {holder}", _hint_for(holder))

    def _take_port(self) -> Iterator[protocol.Reason]:
        if self._task.choose_port:
            yield from self._choose_port()
        elif self.port is not None:
            problem = self._hold(self.port)
            if problem is not None:
                yield problem

    def _choose_port(self) -> Iterator[protocol.Reason]:
        candidates, problem = ports.candidates(), None
        for port in candidates:
            problem = self._hold(port)
            if problem is None:
                self.port = port
                return
        opened = ports.opened()
        hint = OTHER_PORT if opened is None else OPEN_MORE
        if problem is None:
            reason = "all are reserved" if opened is None else f"the firewall opens {ports.spans(opened) or 'none'}"
            yield protocol.Reason("port-closed", f"no port can be chosen for the rendezvous: {reason}", hint)
            return
        where = "" if opened is None else ", of those that the firewall opens to the members,"
        text = f"none of {len(candidates)} ports for the rendezvous{where} is free ({ports.spans(candidates)})"
        yield protocol.Reason("port-busy", f"{text}; {problem.message}", hint)

    def _hold(self, port: int) -> protocol.Reason | None:
        """Lease and bind `port`, or return the reason why that failed."""
        holder = self._lease(leases.port_name(port))
        if holder is not None:
            text = f"port {port} is held for {holder}"
            return protocol.Reason("port-leased", text, _hint_for(holder) or OTHER_PORT)
        try:
            self._port = ports.hold(port)
        except OSError as error:
            self.leases.pop().close()
            return _port_problem(port, error)
        return None

    def _lease(self, name: str) -> leases.Holder | None:
        taken = leases.take(name)
        if isinstance(taken, leases.Holder):
            return taken
        self.leases.append(taken)
        return None

    def begin(self, loop: EventLoop) -> None:
        """Answer those who look for the holders of the leases."""
        self._loop = loop
        for lease in self.leases:
            loop.watch(lease, partial(leases.turn_away, lease))

    def end(self) -> Iterable[str]:
        """Release all of it; return a phrase for each lease or port that a process of this run still holds."""
        for lease in self.leases:
            self._loop.forget(lease)
        self.drop()
        return self._still_taken()

    def drop(self) -> None:
        """Release the port, the environment and all leases."""
        for held in [*self.leases, *([self._port] if self._port is not None else [])]:
            held.close()
        if self._environment is not None:
            os.close(self._environment)
        self.leases, self._port, self._environment = [], None, None

    def _still_taken(self) -> Iterator[str]:
        for index, name in self._names.items():
            holder = leases.holder(name)
            if holder is not None and holder.pid == os.getpid():  # The process that took it, whoever keeps it now.
                yield f"device {index} is still leased to {holder}"
        if self.port is not None:
            listener = ports.listener(self.port)
            if listener is not None and listener.run == self._task.run:
                yield f"port {self.port} is still held by {listener}"


def _hint_for(holder: leases.Holder) -> str:
    """Return the command that stops the run of `holder`; "" for a holder of another user."""
    is_run = holder.run and holder.is_ours and holder.run != leases.PROBE
    return f"pylaunch stop {holder.run}" if is_run else ""


def _port_problem(port: int, error: OSError) -> protocol.Reason:
    if error.errno != errno.EADDRINUSE:
        return protocol.Reason("port-unusable", f"port {port} cannot be taken: {error.strerror}", OTHER_PORT)
    found = ports.listener(port)
    if found is None:
        return protocol.Reason("port-busy", f"port {port} is held by a process that cannot be seen", OTHER_PORT)
    inside = cgroups.container(found.pid or 0)
    belongs = (f" in {inside}" if inside else "") + (f", run {found.run}" if found.run else "")
    hint = f"pylaunch stop {found.run}" if found.run else OTHER_PORT
    return protocol.Reason("port-busy", f"port {port} is held by {found}{belongs}", hint)
