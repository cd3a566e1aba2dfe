"""Who holds a device or a rendezvous port: a lock that the kernel keeps, and drops when its holder dies.

A lease is a listening socket with an abstract name, one per device and per port, shared by all users of the machine.
Who connects to it is told, in one JSON object, which run holds it, for whom and since when.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pwd
import socket
import struct
import time
from dataclasses import dataclass

ANSWER_S = 1.0
PROBE = "check"
"""In the place of a run's id: `pylaunch check` has the port for the moment in which it tries the network."""

_UCRED = struct.Struct("3i")


@dataclass(frozen=True)
class Holder:
    """Who has what we wanted."""

    run: str
    user: str
    since: float
    devices: list[int]
    pid: int
    is_spare: bool = False
    """It is kept for a node of that run that may fail; nothing runs on it."""

    def __str__(self) -> str:
        if self.run == PROBE:
            return f"pylaunch check of {self.user} (pid {self.pid})"
        if not self.run:
            return f"pid {self.pid} of {self.user}"
        since = time.strftime("%H:%M", time.localtime(self.since))
        return f"run {self.run} of {self.user} since {since}{' (as a spare)' if self.is_spare else ''}"


def device_name(index: int, root: str, default_root: str) -> str:
    """The lease of a device. Roots other than the default are nodes of their own, with devices of their own."""
    scope = "" if root == default_root else hashlib.sha256(os.fsencode(root)).hexdigest()[:16] + "/"
    return f"\0pylaunch/device/{scope}{index}"


def port_name(port: int) -> str:
    """The lease of a TCP port: two sockets that only bind it do not exclude each other, and cannot be looked up."""
    return f"\0pylaunch/port/{port}"


def take(name: str) -> socket.socket | Holder:
    """The lease `name`, held until the socket is closed or we die; or who has it."""
    for _ in range(100):
        lease = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lease.bind(name)
        except OSError as error:
            lease.close()
            if error.errno != errno.EADDRINUSE:
                raise
            found = holder(name)
            if found is not None:
                return found
            continue  # Given back between the two questions.
        lease.listen(8)
        lease.setblocking(False)
        return lease
    return Holder("", "somebody who never answers", 0.0, [], 0)


def answer(lease: socket.socket, run: str, devices: list[int], since: float, *, is_spare: bool = False) -> None:
    """Tell who asks who we are."""
    try:
        asking, _ = lease.accept()
    except BlockingIOError:
        return
    with asking:
        body = {
            "run": run, "user": user_name(os.getuid()), "since": since, "devices": devices, "pid": os.getpid(),
            "spare": is_spare,
        }  # fmt: skip
        try:
            asking.sendall(json.dumps(body).encode())
        except OSError:
            return


def holder(name: str) -> Holder | None:
    """Who has the lease `name`; None when it is free."""
    pid, uid = 0, -1
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(ANSWER_S)
        try:
            asking.connect(name)
        except ConnectionRefusedError:
            return None
        try:
            pid, uid, _ = _UCRED.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
            said = json.loads(asking.recv(4096))
            since, is_spare = float(said["since"]), bool(said.get("spare", False))
            return Holder(str(said["run"]), user_name(uid), since, list(said["devices"]), pid, is_spare)
        except (OSError, ValueError, KeyError, TypeError):
            return Holder("", user_name(uid), 0.0, [], pid)


def user_name(uid: int) -> str:
    """The name of user `uid`, or its number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user id {uid}"
