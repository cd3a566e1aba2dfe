"""Supervisor of a failed attempt that waits with its template, and becomes the supervisor of the next attempt.

    open --run RUN.1             supervisor of RUN, which is over
    connect to next.sock  ──►    after the last message to its controllers
                          ◄── r  it waits
    RUN.1, version        ──►    with the lock and the listener of RUN.1 as descriptors
                          ◄── t  taken: the template carries the mark of RUN.1 now, and this process serves RUN.1

A new program replaces the supervisor before it waits (`execv`): the process, and therefore its child, the template,
stay, and nothing else of the old attempt does. One connection is all it waits for. A caller that gets no answer starts
an ordinary supervisor; one that is not called within STAND_BY_S ends, and its template with it.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import signal
import socket
import sys

from pylaunch.agent.run.kept_template import KeptTemplate
from pylaunch.agent.run.worker_group import archive
from pylaunch.agent.shared import local_socket
from pylaunch.agent.shared.dataclass import dataclass
from pylaunch.agent.shared.layout import NEXT_SOCKET, NodeRoot, RunDirectory, previous_of
from pylaunch.agent.shared.untrusted_json import UntrustedJsonError, parse_object

STAND_BY_S = 60.0
"""Seconds for the controller to begin the next attempt. It decides at once, after all nodes have ended this one."""

READY_S = 10.0
"""Seconds for the supervisor of the previous attempt to serve its last controllers."""

ANSWER_S = 10.0
LARGEST_REQUEST = 1024
LARGEST_STATE = 64 << 20
READY, TAKEN = b"r", b"t"
VERB = "stand-by"


@dataclass(frozen=True)
class NextAttempt:
    """Attempt that this process supervises from now on."""

    directory: RunDirectory
    lock: int
    listener: socket.socket
    warm: KeptTemplate


def stand_by(directory: RunDirectory, root: NodeRoot, kept: KeptTemplate, listener: socket.socket) -> None:
    """Replace the program of this process with one that waits for the next attempt. Raises OSError."""
    state = os.memfd_create("pylaunch-template", 0)
    os.write(state, kept.encoded())
    os.lseek(state, 0, os.SEEK_SET)
    for each in (kept.channel.fileno(), listener.fileno()):
        os.set_inheritable(each, True)
    words = [VERB, "--root", root.path, "--run", directory.run, "--state", f"{state},{listener.fileno()}"]
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # News of a log that is on its way would end the new program.
    os.execv(sys.executable, [sys.executable, "-I", "-S", archive(), *words])


def wait_for_next(root: NodeRoot, run: str, version: str, state: str) -> NextAttempt | None:
    """Wait for the next attempt after `run`. None if there is none, or if it does not want the template."""
    content, waiting = map(int, state.split(","))
    kept = KeptTemplate.decoded(os.read(content, LARGEST_STATE))
    os.close(content)
    os.set_inheritable(waiting, False)
    listener = socket.socket(fileno=waiting)
    found = None
    try:
        poll = select.poll()
        for each in (listener, kept.channel):
            poll.register(each, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(1000 * STAND_BY_S)]
        if ready == [listener.fileno()]:
            connected = local_socket.accept(listener)
            if connected is not None:
                with connected:
                    found = _taken(root, run, version, kept, connected)
    except (OSError, UntrustedJsonError):
        pass  # The caller has given up, or is none.
    finally:
        listener.close()
        with contextlib.suppress(OSError):
            os.unlink(root.run(run).file(NEXT_SOCKET))
    if found is None:
        kept.end()
    return found


def _taken(root: NodeRoot, run: str, version: str, kept: KeptTemplate, caller: socket.socket) -> NextAttempt | None:
    """Answer the caller, and return the attempt that it hands over. Without one, this process is about to end."""
    caller.settimeout(ANSWER_S)
    caller.sendall(READY)
    size = array.array("i").itemsize
    packet, ancillary, _, _ = caller.recvmsg(LARGEST_REQUEST, socket.CMSG_SPACE(2 * size))
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % size])
    for each in descriptors:
        os.set_inheritable(each, False)
    asked = parse_object(packet, LARGEST_REQUEST)
    wanted = asked.get("run")
    if len(descriptors) != 2 or asked.get("version") != version or not isinstance(wanted, str):
        return None
    if previous_of(wanted) != run or not kept.mark(wanted):
        return None
    attempt = NextAttempt(root.run(wanted), descriptors[0], socket.socket(fileno=descriptors[1]), kept)
    caller.sendall(TAKEN)
    return attempt


def is_taken_over(
    root: NodeRoot, directory: RunDirectory, version: str, lock: int, listener: socket.socket
) -> bool:  # fmt: skip
    """Hand the run in `directory` to the supervisor of the attempt before it. Return False if there is none."""
    previous = previous_of(directory.run)
    if previous is None:
        return False
    try:
        with local_socket.connect(root.run(previous).file(NEXT_SOCKET), READY_S) as connection:
            if connection.recv(1) != READY:
                return False
            request = json.dumps({"run": directory.run, "version": version}).encode()
            rights = array.array("i", [lock, listener.fileno()])
            connection.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            connection.settimeout(ANSWER_S)
            return _answer(connection) == TAKEN
    except OSError:
        return False


def _answer(connection: socket.socket) -> bytes:
    """Return the answer. After a timeout no later answer can arrive: exactly one of two processes has the run."""
    try:
        return connection.recv(1)
    except socket.timeout:
        connection.shutdown(socket.SHUT_RDWR)
        return connection.recv(1)
