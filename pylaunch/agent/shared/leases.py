"""Leases of devices and rendezvous ports: locks in the kernel, released when their holder dies.

A lease is a listening socket with an abstract name, one per device and per port, shared by all users of the machine.
A process that connects to it receives one JSON object: the run that holds the lease, and since when. Any local user
can listen on such a name and send anything or nothing. So user and process id of a holder are read from the kernel, an
answer is bounded data, and all holders together have one deadline to answer.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import select
import socket
import time
from collections.abc import Iterable
from hashlib import sha256

from pylaunch.agent.shared.sockets import unix_sockets
from pylaunch.base.dataclass import dataclass, field
from pylaunch.base.layout import RUN_ID
from pylaunch.base.untrusted_json import UntrustedJsonError, parse_object

ANSWER_S = 1.0
"""Deadline of all holders together."""

RETRY_S = 0.02
ASKED_AT_ONCE = 64
LONGEST_ANSWER = 4096
LATEST = 1 << 33
"""Later times are rejected. In seconds since the epoch."""

PROBE = "check"
"""Used as the run id while `pylaunch check` holds the port for its network test."""


@dataclass(frozen=True)
class Holder:
    """Process that holds a lease."""

    run: str
    """Run id in its answer; "" without a valid answer."""

    user: str
    since: float
    devices: list[int]
    pid: int
    """0 if it does not accept a connection."""

    uid: int = -1
    """User id of the listener, from the kernel; -1 if unknown."""

    @property
    def is_ours(self) -> bool:
        return self.uid == os.getuid()

    def __str__(self) -> str:
        if self.run == PROBE:
            return f"pylaunch check of {self.user} (pid {self.pid})"
        if not self.run:
            return f"pid {self.pid} of {self.user}" if self.pid else f"a process of {self.user} that does not answer"
        since = time.strftime("%H:%M", time.localtime(self.since))
        return f"run {self.run} of {self.user} since {since}"


def device_name(index: int, root: str, default_root: str) -> str:
    """Return the lease name of a device. A root other than the default is a separate node with its own devices."""
    if root == default_root:
        return f"\0pylaunch/device/{index}"
    return f"\0pylaunch/device/{sha256(os.fsencode(root)).hexdigest()[:16]}/{index}"


def port_name(port: int) -> str:
    """Return the lease name of a TCP port. A bound port alone excludes no second bind and does not show its holder."""
    return f"\0pylaunch/port/{port}"


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
    until = time.monotonic() + ANSWER_S
    while True:
        lease = bind(name)
        if lease is not None:
            return lease
        found = holder(name)
        if found is not None:
            return found if found.run else bind(name) or found  # A holder that is exiting sends no answer and is gone.
        if time.monotonic() > until:
            return Holder("", "somebody who takes it and gives it back", 0.0, [], 0)


def answer(lease: socket.socket, run: str, devices: list[int], since: float) -> None:
    """Answer one process that asks for the holder of `lease`. Never blocks and never fails."""
    body = {"run": run, "since": since, "devices": devices}
    with contextlib.suppress(OSError):
        client, _ = lease.accept()
        with client:
            client.setblocking(False)
            client.sendall(json.dumps(body).encode())


def holder(name: str) -> Holder | None:
    """Return the holder of the lease `name`; None if it is free."""
    return holders([name])[name]


def holders(names: Iterable[str]) -> dict[str, Holder | None]:
    """Return the holder of each of the leases `names`, None for a free one, within ANSWER_S for any number of names."""
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
    """Connection to the process that listens on the name of a lease."""

    name: str
    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)

    def has_answer(self) -> bool:
        """Read the bytes that have arrived; True at the end of the answer."""
        try:
            chunk = self.socket.recv(LONGEST_ANSWER + 1)
        except BlockingIOError:
            return False
        except OSError:
            return True
        self.received += chunk
        return not chunk or len(self.received) > LONGEST_ANSWER

    def holder(self) -> Holder:
        try:
            pid, uid = unix_sockets.peer(self.socket)
        except OSError:
            return unknown(None)
        return decoded(bytes(self.received), uid, pid)


def _ask(names: list[str], until: float) -> dict[str, Holder | None]:
    """Connect to all of `names` and return the holders that answer before `until`."""
    found: dict[str, Holder | None] = {}
    asked: dict[int, _Question] = {}
    pending = names
    poll = select.poll()
    owners: dict[str, int] | None = None
    try:
        while True:
            refused = []
            for name in pending:
                question = _connect(name)
                if isinstance(question, int):
                    refused.append((name, question))
                else:
                    asked[question.socket.fileno()] = question
                    poll.register(question.socket, select.POLLIN)
            # Without a listener a name is free, or bound only: the kernel's socket table shows the difference.
            owners = (unix_sockets.owners() or {}) if refused else {}
            free = [name for name, number in refused if number == errno.ECONNREFUSED and name not in owners]
            found.update(dict.fromkeys(free))
            pending = [name for name, _ in refused if name not in found]
            left = until - time.monotonic()
            if not (asked or pending):
                break
            for descriptor, _ in poll.poll(1000 * max(0.0, min(left, RETRY_S if pending else left))):
                if asked[descriptor].has_answer():
                    poll.unregister(descriptor)
                    with (question := asked.pop(descriptor)).socket:
                        found[question.name] = question.holder()
            if left <= 0:  # Only now: answers that arrived while this process was paused have been read.
                break
        found.update((each.name, each.holder()) for each in asked.values())
        found.update((name, unknown(owners.get(name))) for name in pending)
    finally:
        for each in asked.values():
            each.socket.close()
    return found


def _connect(name: str) -> _Question | int:
    """Connect to the listener on `name`, or return the error number: EAGAIN if its backlog is full."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    number = connection.connect_ex(name)
    if number == 0:
        return _Question(name, connection)
    connection.close()
    return number


def unknown(uid: int | None) -> Holder:
    """Return a holder that does not answer: a socket of the user `uid`, None if the kernel does not report it."""
    user = "another program" if uid is None else user_name(uid)
    return Holder("", user, 0.0, [], 0, uid=-1 if uid is None else uid)


def decoded(received: bytes, uid: int, pid: int) -> Holder:
    """Return the holder that answered `received`; `uid` and `pid` are from the kernel."""
    nothing = Holder("", user_name(uid), 0.0, [], pid, uid=uid)
    try:
        body = parse_object(received, LONGEST_ANSWER)
    except UntrustedJsonError:
        return nothing
    run, since, devices = body.get("run"), body.get("since"), body.get("devices")
    if not isinstance(run, str) or not RUN_ID.match(run) or not isinstance(since, (int, float)):
        return nothing
    if not 0 <= since < LATEST or not isinstance(devices, list):
        return nothing
    if not all(isinstance(each, int) and each >= 0 for each in devices):
        return nothing
    return Holder(run, user_name(uid), float(since), devices, pid, uid)


def user_name(uid: int) -> str:
    """Return the name of user `uid`, or its number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user id {uid}"
