"""`open` and `attach`: relay between a controller on stdin and stdout and the supervisor of a run on its socket.

`open` starts the supervisor if there is none. The supervisor is a daemon: its session is its own and it keeps no
descriptor of the SSH connection, so that it survives the end of that connection. On a node of a Slurm job, the daemon
of the job starts it instead (`job_daemon`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time

from pylaunch import protocol
from pylaunch.agent.serve import job_daemon, replay
from pylaunch.agent.serve.supervisor import STOPS, Supervisor
from pylaunch.agent.shared import leases, processes, rank_files, run_lock, run_processes
from pylaunch.agent.shared.sockets import local_socket
from pylaunch.base.layout import AgentError, NodeRoot, RunDirectory, RunNotOnNodeError, SupervisorStoppedError

STARTING_S = 5.0
POLL_S = 0.02
LOOK_S = 0.5
"""Seconds without an answer from the supervisor after which the relay checks whether it is stopped (SIGSTOP)."""


def open_run(root: NodeRoot, run: str, version: str, *, job: str | None = None) -> int:
    """Relay to the supervisor of `run`, and start it if there is none; `job` is the Slurm job whose daemon starts it.

    Raises AgentError for a run that is over.
    """
    directory = root.run(run)
    for made in (directory.path, directory.logs):
        os.makedirs(made, mode=0o700, exist_ok=True)
    for _ in range(int(STARTING_S / POLL_S)):
        if directory.is_over:
            raise AgentError(f"run {run} is over on this host")
        held = run_lock.lock(directory)
        if held is not None and job is None:
            start_supervisor(root, directory, held, version)
        elif held is not None and job is not None:
            os.close(held)
            job_daemon.request_supervisor(root, job, run)
        relayed = _relay(directory)
        if relayed is not None:
            return relayed
        time.sleep(POLL_S)
    raise AgentError(f"the supervisor of run {run} does not answer at {directory.file('agent.sock')}")


def attach(root: NodeRoot, run: str, version: str) -> int:
    """Relay to the supervisor of `run`, or replay the files of a run that is over. Raises AgentError if unknown."""
    directory = root.run(run)
    if reason := rank_files.obstacle(f"{directory.path}/."):
        alive = len(processes.of_run(run, root.path))
        if not alive and not os.path.isdir(directory.path):
            raise RunNotOnNodeError(f"no run {run} on this host")
        processes_of_run = f"; {alive} of its processes {'is' if alive == 1 else 'are'} alive" if alive else ""
        raise AgentError(f"the files of run {run} cannot be read: {reason}{processes_of_run}")
    for _ in range(int(STARTING_S / POLL_S)):
        if not run_lock.is_live(directory):
            return replay.replay(directory, version)
        relayed = _relay(directory)
        if relayed is not None:
            return relayed
        time.sleep(POLL_S)
    raise AgentError(f"the supervisor of run {run} does not answer at {directory.file('agent.sock')}")


def start_supervisor(root: NodeRoot, directory: RunDirectory, held: int, version: str) -> None:
    """Fork the supervisor of a run; `held` is the descriptor of the run's lock, which this closes here."""
    listener = local_socket.listen(directory.file("agent.sock"))
    # The daemon of a job may pass a signal on before the supervisor watches for signals: it waits until then.
    before, child = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS), -1
    try:
        child = os.fork()
    finally:
        if child:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            _become_daemon(directory, keep=(held, listener.fileno()))
            leases.show_run(directory.run)
            run_lock.sign(held)
            _supervise(Supervisor(root, directory, listener, version))
        os._exit(0)
    os.waitpid(child, 0)
    listener.close()
    os.close(held)


def _supervise(supervisor: Supervisor) -> None:
    """Run `supervisor` and end this process with it. A bug leaves its traceback in agent.log."""
    try:
        supervisor.serve()
    except Exception:  # noqa: BLE001 -- the boundary of this process
        import traceback  # noqa: PLC0415 -- milliseconds that only a bug costs

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _become_daemon(directory: RunDirectory, keep: tuple[int, ...]) -> None:
    os.chdir("/")
    os.umask(0o077)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = rank_files.open_regular(directory.file("agent.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):  # The directory listing had a descriptor of its own.
                os.close(int(name))


def _relay(directory: RunDirectory) -> int | None:
    """Copy bytes in both directions until one side closes; return None if no supervisor answers.

    Raises SupervisorStoppedError.
    """
    try:
        supervisor = local_socket.connect(directory.file("agent.sock"), LOOK_S)
        received = _first_bytes(supervisor, directory)
    except (BlockingIOError, socket.timeout):
        _need_running(directory)
        return None
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
        return None
    if not received:
        return None
    threading.Thread(target=_forward_stdin, args=(supervisor,), daemon=True).start()
    try:
        while received:
            _write_all(received)
            received = supervisor.recv(1 << 16)
    except ConnectionResetError:
        os._exit(0)  # The supervisor was killed before it had read everything: gone, like any other.
    except OSError:
        os._exit(1)
    os._exit(0)


def _first_bytes(supervisor: socket.socket, directory: RunDirectory) -> bytes:
    """Wait for the first bytes, as long as the supervisor is busy but not stopped. Raises SupervisorStoppedError."""
    while True:
        try:
            first = supervisor.recv(1 << 16)
        except socket.timeout:
            _need_running(directory)
        else:
            supervisor.settimeout(None)
            return first


def _need_running(directory: RunDirectory) -> None:
    stopped = run_processes.stopped_agent(directory, processes.mine())
    if stopped is not None:
        raise SupervisorStoppedError(stopped)


def _forward_stdin(supervisor: socket.socket) -> None:
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
    """Send `Failed` to the controller; return the exit code."""
    sys.stdout.buffer.write(protocol.encode(protocol.Failed(message, code)))
    sys.stdout.buffer.flush()
    return 1
