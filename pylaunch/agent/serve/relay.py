"""`open` and `attach`: between a controller on stdin and stdout, and the supervisor of a run on its socket.

`open` starts the supervisor if none lives: listening already, in a session of its own, holding nothing of ours, so
that the SSH connection can end without it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
import traceback
from typing import Callable

from pylaunch.agent import wire
from pylaunch.agent.run import session_scope
from pylaunch.agent.serve import replay
from pylaunch.agent.serve.supervisor import Supervisor
from pylaunch.agent.shared import clean, local_socket, rank_files, run_processes
from pylaunch.agent.shared.layout import AgentError, NodeRoot, RunDirectory, RunNotOnNodeError, SupervisorStoppedError

STARTING_S = 5.0
POLL_S = 0.02
LOOK_S = 0.5
"""After this long without a word from the supervisor, whether it is stopped is looked at."""


def open_run(root: NodeRoot, run: str, version: str, sleep: Callable[[float], None] = time.sleep) -> int:
    """Talk to the supervisor of `run`, which is started if there is none. Raises AgentError for one that is over."""
    directory = root.run(run)
    for made in (directory.path, directory.logs):
        os.makedirs(made, mode=0o700, exist_ok=True)
    for _ in range(int(STARTING_S / POLL_S)):
        if directory.is_over:
            raise AgentError(f"run {run} is over on this host")
        held = clean.lock(directory)
        if held is not None:
            _start(root, directory, version, held)
        relayed = _relay(directory)
        if relayed is not None:
            return relayed
        sleep(POLL_S)
    raise AgentError(f"the supervisor of run {run} does not answer at {directory.file('agent.sock')}")


def attach(root: NodeRoot, run: str, version: str, sleep: Callable[[float], None] = time.sleep) -> int:
    """Talk to the supervisor of `run`, or answer from the run's files when it is over. Raises AgentError if unknown."""
    directory = root.run(run)
    if not os.path.isdir(directory.path):
        raise RunNotOnNodeError(f"no run {run} on this host")
    for _ in range(int(STARTING_S / POLL_S)):
        if not clean.is_live(directory):
            return replay.replay(directory, version)
        relayed = _relay(directory)
        if relayed is not None:
            return relayed
        sleep(POLL_S)
    raise AgentError(f"the supervisor of run {run} does not answer at {directory.file('agent.sock')}")


def _start(root: NodeRoot, directory: RunDirectory, version: str, held: int) -> None:
    listener = local_socket.listen(directory.file("agent.sock"))
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            _become_daemon(directory, keep=(held, listener.fileno()))
            note = session_scope.leave_session(directory.run)
            _supervise(Supervisor(root, directory, listener, version, notes=[note] if note else []))
        os._exit(0)
    os.waitpid(child, 0)
    listener.close()
    os.close(held)


def _supervise(supervisor: Supervisor) -> None:
    """Be `supervisor` and nothing else: the end of it is the end of this process, and a bug of it is in its log."""
    try:
        supervisor.serve()
    except Exception:  # noqa: BLE001 -- the boundary of this process
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _become_daemon(directory: RunDirectory, keep: tuple[int, int]) -> None:
    os.chdir("/")
    os.umask(0o077)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = rank_files.open_regular(directory.file("agent.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):  # The listing itself was open while it was made.
                os.close(int(name))


def _relay(directory: RunDirectory) -> int | None:
    """Pass bytes both ways until one side ends; None when no supervisor spoke. Raises AgentStoppedError."""
    try:
        supervisor = local_socket.connect(directory.file("agent.sock"), LOOK_S)
        first = _first_word(supervisor, directory)
    except (BlockingIOError, socket.timeout):
        _need_running(directory)
        return None
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
        return None
    if not first:
        return None
    threading.Thread(target=_pass_on, args=(supervisor,), daemon=True).start()
    try:
        while first:
            _write_all(first)
            first = supervisor.recv(1 << 16)
    except OSError:
        os._exit(1)
    os._exit(0)


def _first_word(supervisor: socket.socket, directory: RunDirectory) -> bytes:
    """What it says first, however long it is busy. Raises AgentStoppedError."""
    while True:
        try:
            first = supervisor.recv(1 << 16)
        except socket.timeout:
            _need_running(directory)
        else:
            supervisor.settimeout(None)
            return first


def _need_running(directory: RunDirectory) -> None:
    stopped = run_processes.stopped_agent(directory)
    if stopped is not None:
        raise SupervisorStoppedError(stopped)


def _pass_on(supervisor: socket.socket) -> None:
    try:
        while True:
            chunk = os.read(0, 1 << 16)
            if not chunk:
                break
            supervisor.sendall(chunk)
        supervisor.shutdown(socket.SHUT_WR)
    except OSError:
        return


def _write_all(chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(1, chunk) :]


def fail(message: str, code: str = "") -> int:
    """Say on the wire why there is nobody to talk to."""
    sys.stdout.buffer.write(wire.encode(wire.Failed(message, code)))
    sys.stdout.buffer.flush()
    return 1
