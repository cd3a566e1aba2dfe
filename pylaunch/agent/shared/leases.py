"""Leases of devices and rendezvous ports: locks that the kernel keeps, and drops when their holder dies.

A lease is a listening socket with an abstract name, one per device and per port, shared by all users of the machine.
Whoever connects to it gets one JSON object: which run holds it and since when. Any local user can listen on such a name
and answer anything or nothing, so only the kernel is trusted with user and process id of a holder, an answer is data
within bounds, and all holders together have one deadline to answer.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import select
import socket
import struct
import time
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Iterable

from pylaunch.agent.shared import unix_sockets
from pylaunch.agent.shared.layout import RUN_ID
from pylaunch.agent.shared.untrusted_json import UntrustedJsonError, parse_object

ANSWER_S = 1.0
"""What all holders that are asked at once may take together."""

RETRY_S = 0.02
ASKED_AT_ONCE = 64
LONGEST_ANSWER = 4096
LATEST = 1 << 33
"""Times after this one are no times."""

PROBE = "check"
"""In the place of a run's id: `pylaunch check` has the port for the moment in which it tries the network."""

_UCRED = struct.Struct("iII")


@dataclass(frozen=True)
class Holder:
    """The process that has a lease."""

    run: str
    """As it says itself; "" when it says nothing that makes sense."""

    user: str
    since: float
    devices: list[int]
    pid: int
    """0 when it does not even accept a connection."""

    is_spare: bool = False
    """It is kept for a node of that run that may fail; nothing runs on it."""

    uid: int = -1
    """Of whoever listens, by the kernel; -1 when it does not tell."""

    @property
    def is_ours(self) -> bool:
        return self.uid == os.getuid()

    def __str__(self) -> str:
        if self.run == PROBE:
            return f"pylaunch check of {self.user} (pid {self.pid})"
        if not self.run:
            return f"pid {self.pid} of {self.user}" if self.pid else f"a process of {self.user} that does not answer"
        since = time.strftime("%H:%M", time.localtime(self.since))
        return f"run {self.run} of {self.user} since {since}{' (as a spare)' if self.is_spare else ''}"


def device_name(index: int, root: str, default_root: str) -> str:
    """The lease of a device. Roots other than the default are nodes of their own, with devices of their own."""
    scope = "" if root == default_root else sha256(os.fsencode(root)).hexdigest()[:16] + "/"
    return f"\0pylaunch/device/{scope}{index}"


def port_name(port: int) -> str:
    """The lease of a TCP port: two sockets that only bind it do not exclude each other, and cannot be looked up."""
    return f"\0pylaunch/port/{port}"


def bind(name: str) -> socket.socket | None:
    """Take the lease `name` and hold it until the socket is closed or we die; None when somebody has it."""
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
    """Take the lease `name`, or return who has it."""
    until = time.monotonic() + ANSWER_S
    while True:
        lease = bind(name)
        if lease is not None:
            return lease
        found = holder(name)
        if found is not None:
            return found if found.run else bind(name) or found  # One that ends now says nothing, and is gone.
        if time.monotonic() > until:
            return Holder("", "somebody who takes it and gives it back", 0.0, [], 0)


def answer(lease: socket.socket, run: str, devices: list[int], since: float, *, is_spare: bool = False) -> None:
    """Answer one process that asks who has `lease`. It never waits, and whatever that process does is no error."""
    body = {"run": run, "since": since, "devices": devices, "spare": is_spare}
    with contextlib.suppress(OSError):
        asking, _ = lease.accept()
        with asking:
            asking.setblocking(False)
            asking.sendall(json.dumps(body).encode())


def holder(name: str) -> Holder | None:
    """Return who has the lease `name`; None when it is free."""
    return holders([name])[name]


def holders(names: Iterable[str]) -> dict[str, Holder | None]:
    """Return who has each of the leases `names`; None for one that is free. Takes ANSWER_S at most, however many."""
    until = time.monotonic() + ANSWER_S
    found: dict[str, Holder | None] = {}
    waiting = list(dict.fromkeys(names))
    while waiting:
        batches = -(-len(waiting) // ASKED_AT_ONCE)
        now = time.monotonic()
        found.update(_ask(waiting[:ASKED_AT_ONCE], now + max(0.0, until - now) / batches))
        waiting = waiting[ASKED_AT_ONCE:]
    return found


@dataclass
class _Question:
    """A connection to whoever listens on the name of a lease."""

    name: str
    socket: socket.socket
    said: bytearray = field(default_factory=bytearray)

    def has_answer(self) -> bool:
        """Read what has arrived; True when no more is to come."""
        try:
            chunk = self.socket.recv(LONGEST_ANSWER + 1)
        except BlockingIOError:
            return False
        except OSError:
            return True
        self.said += chunk
        return not chunk or len(self.said) > LONGEST_ANSWER

    def holder(self) -> Holder:
        try:
            pid, uid, _ = _UCRED.unpack(self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        except OSError:
            return unknown(None)
        return decoded(bytes(self.said), uid, pid)


def _ask(names: list[str], until: float) -> dict[str, Holder | None]:
    """Connect to all of `names` and read what they answer until then."""
    found: dict[str, Holder | None] = {}
    asked: dict[int, _Question] = {}
    knocking = names
    poll = select.poll()
    owners: dict[str, int] | None = None
    try:
        while True:
            refused = []
            for name in knocking:
                question = _connect(name)
                if isinstance(question, int):
                    refused.append((name, question))
                else:
                    asked[question.socket.fileno()] = question
                    poll.register(question.socket, select.POLLIN)
            # Nobody listens: it is free, or is bound without listening, which only the kernel's table tells.
            owners = (unix_sockets.owners() or {}) if refused else {}
            free = [name for name, number in refused if number == errno.ECONNREFUSED and name not in owners]
            found.update(dict.fromkeys(free))
            knocking = [name for name, _ in refused if name not in found]
            left = until - time.monotonic()
            if left <= 0 or not (asked or knocking):
                break
            for descriptor, _ in poll.poll(1000 * min(left, RETRY_S if knocking else left)):
                if asked[descriptor].has_answer():
                    poll.unregister(descriptor)
                    with (question := asked.pop(descriptor)).socket:
                        found[question.name] = question.holder()
        found.update((each.name, each.holder()) for each in asked.values())
        found.update((name, unknown(owners.get(name))) for name in knocking)
    finally:
        for each in asked.values():
            each.socket.close()
    return found


def _connect(name: str) -> _Question | int:
    """A connection to whoever listens on `name`, or the error number: EAGAIN where too many wait for it already."""
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    asking.setblocking(False)
    number = asking.connect_ex(name)
    if number == 0:
        return _Question(name, asking)
    asking.close()
    return number


def unknown(uid: int | None) -> Holder:
    """A holder that cannot be asked: a socket of the user `uid`, if the kernel tells as much."""
    user = "another program" if uid is None else user_name(uid)
    return Holder("", user, 0.0, [], 0, uid=-1 if uid is None else uid)


def decoded(said: bytes, uid: int, pid: int) -> Holder:
    """The holder that answered `said`; `uid` and `pid` are from the kernel."""
    nothing = Holder("", user_name(uid), 0.0, [], pid, uid=uid)
    try:
        body = parse_object(said, LONGEST_ANSWER)
    except UntrustedJsonError:
        return nothing
    run, since, devices = body.get("run"), body.get("since"), body.get("devices")
    if not isinstance(run, str) or not RUN_ID.match(run) or not isinstance(since, (int, float)):
        return nothing
    if not 0 <= since < LATEST or not isinstance(devices, list):
        return nothing
    if not all(isinstance(each, int) and each >= 0 for each in devices):
        return nothing
    return Holder(run, user_name(uid), float(since), devices, pid, body.get("spare") is True, uid)


def user_name(uid: int) -> str:
    """The name of user `uid`, or its number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user id {uid}"
