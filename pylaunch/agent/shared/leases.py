"""Leases of devices and rendezvous ports: locks in the kernel, released when their holder dies.

A lease is a listening socket with an abstract name, one per device and per port, shared by all users of the machine.
The kernel says which process of which user listens (unix(7)), and the name of that process shows its run
(`show_run`). Any local user can listen on such a name and choose any name for a process, so only process and user are
facts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import socket
import time
from hashlib import sha256

from pylaunch.agent.shared import processes
from pylaunch.agent.shared.sockets import local_socket
from pylaunch.agent.shared.text import text_or_none
from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import RUN_ID

PROBE = "check"
"""Used as the run id while `pylaunch check` holds the port for its network test."""

SHOWN = "run "
"""Beginning of the name of a process that holds leases of a run. The kernel keeps 15 bytes of a name."""


@dataclass(frozen=True)
class Holder:
    """Process that holds a lease."""

    run: str
    """Run id in the name of the process; "" without one."""

    since: float
    """Start of the process, in seconds since the epoch; 0.0 if unknown."""

    pid: int
    """0 if it accepts no connection."""

    uid: int = -1
    """User id of the listener, from the kernel; -1 if unknown."""

    @property
    def user(self) -> str:
        """Name of the user; "" if unknown."""
        return user_name(self.uid) if self.uid >= 0 else ""

    @property
    def is_ours(self) -> bool:
        return self.uid == os.getuid()

    def __str__(self) -> str:
        if not self.pid:
            return "a process that does not answer"
        if self.run == PROBE:
            return f"pylaunch check of {self.user} (pid {self.pid})"
        if not self.run:
            return f"pid {self.pid} of {self.user}"
        since = time.strftime(" since %H:%M", time.localtime(self.since)) if self.since else ""
        return f"run {self.run} of {self.user}{since}"


NOBODY = Holder("", 0.0, 0)
"""A holder of which the kernel says nothing: it does not listen, or has a full backlog."""


def device_name(index: int, root: str, default_root: str) -> str:
    """Return the lease name of a device. A root other than the default is a separate node with its own devices."""
    if root == default_root:
        return f"\0pylaunch/device/{index}"
    return f"\0pylaunch/device/{sha256(os.fsencode(root)).hexdigest()[:16]}/{index}"


def port_name(port: int) -> str:
    """Return the lease name of a TCP port. A bound port alone excludes no second bind and does not show its holder."""
    return f"\0pylaunch/port/{port}"


def show_run(run: str) -> None:
    """Show `run` in the name of this process, which is to hold leases for it."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "wb", buffering=0) as name:
        name.write((SHOWN + run).encode())


def bind(name: str) -> socket.socket | None:
    """Take the lease `name` and hold it until the socket closes; None if it is held."""
    lease = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lease.bind(name)
        lease.listen(8)
    except OSError as error:
        lease.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    lease.setblocking(False)
    return lease


def take(name: str) -> socket.socket | Holder:
    """Take the lease `name`, or return its holder."""
    lease = bind(name)
    if lease is not None:
        return lease
    found = holder(name)
    return bind(name) or found or NOBODY  # A holder that was exiting is gone by now.


def turn_away(lease: socket.socket) -> None:
    """Close the connection of a process that looks for the holder of `lease`, which the kernel has told it."""
    with contextlib.suppress(OSError):
        lease.accept()[0].close()


def holder(name: str) -> Holder | None:
    """Return the holder of the lease `name`; None if nobody listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        number = connection.connect_ex(name)
        if number == errno.ECONNREFUSED:
            return None
        if number != 0:
            return NOBODY
        pid, uid = local_socket.peer(connection)
    return Holder(_run_of(pid), _started(pid), pid, uid)


def _run_of(pid: int) -> str:
    name = text_or_none(f"/proc/{pid}/comm") or ""
    run = name[len(SHOWN) :]
    return run if name.startswith(SHOWN) and RUN_ID.match(run) else ""


def _started(pid: int) -> float:
    try:
        return processes.start_time(processes.read(pid))
    except OSError:  # It has just ended, or this user may not see it.
        return 0.0


def user_name(uid: int) -> str:
    """Return the name of user `uid`, or its number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user id {uid}"
