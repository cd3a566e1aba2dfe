"""`open` and `attach`: relay between a controller on stdin and stdout and the supervisor of a run on its socket.

`open` starts the supervisor if there is none. The supervisor is a daemon: its session is its own and it keeps no
descriptor of the SSH connection, so that it survives the end of that connection. On a node of a Slurm job, the daemon
of the job starts it instead (`job_daemon`). Of a run that is over, `attach` replays the files, with the messages that
its supervisor would send.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable

from pylaunch import protocol
from pylaunch.agent.logs import log_files
from pylaunch.agent.logs.tail import LogFollower, last_lines
from pylaunch.agent.serve import job_daemon
from pylaunch.agent.serve.supervisor import hello, start_supervisor
from pylaunch.agent.shared import processes, rank_files, record, run_processes
from pylaunch.agent.shared.sockets import local_socket
from pylaunch.base.layout import AgentError, NodeRoot, RunDirectory, RunNotOnNodeError, SupervisorStoppedError

STREAM = re.compile(r"(?:launcher|\d{1,9})\.(?:out|err)\Z")


def replay(directory: RunDirectory) -> int:
    """Speak the protocol on stdin and stdout until everything is sent or the controller disconnects."""
    task = record.read_task(directory)
    phase = "finished" if task is None or _report(directory) is not None else protocol.AGENT_LOST
    send(hello(phase, [], "" if task is None else task.host))
    while True:
        line = sys.stdin.buffer.readline(protocol.MAX_LINE)
        if not line:
            return 0
        message = protocol.decode(line)
        if isinstance(message, protocol.Ping):
            send(protocol.Pong(time.time()))
        elif isinstance(message, protocol.Stop):
            if message.by_hand:
                record.keep_stop_request(directory, message.reason)
        elif isinstance(message, protocol.Examine):
            send(protocol.Examined(message.serial))
        elif isinstance(message, protocol.TryPeers):
            send(protocol.PeersTried({}))  # As the one above: the controller does not know of the end yet.
        elif isinstance(message, protocol.Follow):
            _send_output(directory, message)
            send(_report(directory) or _without_report(directory))
            return 0
        else:
            raise protocol.WireError(f"run {directory.run} is over: {type(message).__name__} has no effect")


def _send_output(directory: RunDirectory, follow: protocol.Follow) -> None:
    for event in record.read_events(directory):
        if not isinstance(event, protocol.Finished):
            send(event)
    names = sorted(name for name in os.listdir(directory.logs) if STREAM.match(name))
    paths = {name: directory.stream(name) for name in names}
    follower = LogFollower(paths, follow)
    follower.dates = log_files.Dates(directory)
    while True:
        output = follower.next(ended=True)
        if output is None:
            break
        send(output)
    send(protocol.CaughtUp())


def _report(directory: RunDirectory) -> protocol.Finished | protocol.Failed | None:
    """Return how the run ended on this host, as its agent said; None where the agent ended before that."""
    finished = [event for event in record.read_events(directory) if isinstance(event, protocol.Finished)]
    if finished:
        return finished[-1]
    outcome = record.read_outcome(directory)
    if outcome is None:
        return None
    return protocol.Failed(f"run {directory.run} was {outcome.outcome} on this host: {outcome.message}")


def _without_report(directory: RunDirectory) -> protocol.Failed:
    """Return the message about a run whose supervisor ended before the run did."""
    if run_processes.was_restarted(directory):
        return protocol.Failed(f"it was restarted during the run{_up_since()}", protocol.HOST_RESTARTED)
    known = what_ended_agent(directory)
    return protocol.Failed(f"the agent of run {directory.run} ended without a report{f': {known}' if known else ''}")


def _up_since() -> str:
    """Return a clause with the time of the first process of this host; "" where other users are hidden."""
    try:
        booted = processes.start_time(processes.read(1))
    except OSError:
        return ""
    return time.strftime(": up since %Y-%m-%d %H:%M:%S %z", time.localtime(booted))


def send(message: object) -> None:
    """Write `message` to the controller."""
    sys.stdout.buffer.write(protocol.encode(message))
    sys.stdout.buffer.flush()


def what_ended_agent(directory: RunDirectory) -> str:
    """Return a clause about the end of the run's agent; "" where its log does not show it, as after SIGKILL."""
    lines = last_lines(directory.file("agent.log"))
    return f"it crashed: {lines[-1]}" if any(line.startswith("Traceback ") for line in lines) else ""


STARTING_S = 5.0
POLL_S = 0.02
LOOK_S = 0.5
"""Seconds without an answer from the supervisor after which the relay checks whether it is stopped (SIGSTOP)."""


def open_run(root: NodeRoot, run: str, *, job: str | None = None) -> int:
    """Relay to the supervisor of `run`, and start it if there is none; `job` is the Slurm job whose daemon starts it.

    Raises AgentError for a run that is over.
    """
    directory = root.run(run)

    def begin() -> int | None:
        if directory.is_over:
            raise AgentError(f"run {run} is over on this host")
        if job is None:
            start_supervisor(root, directory)
        elif not run_processes.is_live(directory):
            job_daemon.request_supervisor(root, job, run)
        return None

    return _relayed(directory, begin)


def attach(root: NodeRoot, run: str) -> int:
    """Relay to the supervisor of `run`, or replay the files of a run that is over. Raises AgentError if unknown."""
    directory = root.run(run)
    if reason := rank_files.obstacle(f"{directory.path}/."):
        alive = len(processes.of_run(run, root.path))
        if not alive and not os.path.isdir(directory.path):
            raise RunNotOnNodeError(f"no run {run} on this host")
        processes_of_run = f"; {alive} of its processes {'is' if alive == 1 else 'are'} alive" if alive else ""
        raise AgentError(f"the files of run {run} cannot be read: {reason}{processes_of_run}")
    return _relayed(directory, lambda: None if run_processes.is_live(directory) else replay(directory))


def _relayed(directory: RunDirectory, before: Callable[[], int | None]) -> int:
    """Relay to the supervisor, which may be starting, unless `before` has answered. Raises AgentError for silence."""
    for _ in range(int(STARTING_S / POLL_S)):
        status = before()
        if status is None:
            status = _relay(directory)
        if status is not None:
            return status
        time.sleep(POLL_S)
    raise AgentError(f"the supervisor of run {directory.run} does not answer at {directory.file('agent.sock')}")


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
