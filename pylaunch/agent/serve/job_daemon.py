"""`job`: the daemon of a Slurm job on one node. It starts the supervisors of runs, so that they belong to its job step.

Slurm ends all processes of a job step when the tasks of that step end. A relay that a controller starts with srun is a
step of its own, so a supervisor that the relay forks would end with the relay. The daemon is the task of a step that
lasts as long as the job: what it forks survives every relay, and Slurm ends it with the job.

    relay of `open`                     this process
    run id and newline           ──►    take the lock of the run, fork its supervisor
                                 ◄──    newline
    connection that stays open          keeps the daemon alive (`hold`)

The daemon ends when it has had no run and no connection for a while, and when the controller requests it: a signal of
`layout` sets the exit status, which becomes that of the job. SIGTERM, which Slurm sends at the time limit and for
scancel, is passed on to the supervisors: they stop their ranks as for any other stop.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from functools import partial

from pylaunch.agent.run import spawn
from pylaunch.agent.serve.supervisor import start_supervisor
from pylaunch.agent.shared import processes
from pylaunch.agent.shared.event_loop import EventLoop
from pylaunch.agent.shared.sockets import local_socket
from pylaunch.base.layout import BAD_END, GOOD_END, AgentError, NodeRoot

_GOOD = signal.Signals[f"SIG{GOOD_END}"]
ENDS = {signal.SIGTERM, signal.SIGINT, _GOOD, signal.Signals[f"SIG{BAD_END}"]}
ANSWERS_S = 10.0
STARTS_S = 20.0
"""Time for a daemon to listen after its node has the agent."""

POLL_S = 0.005
LONGEST_REQUEST = 256


class JobDaemon:
    """Forks supervisors until the job, or the need for it, ends."""

    def __init__(self, root: NodeRoot, job: str, *, idle_s: float) -> None:
        self._root = root
        self._pid = os.getpid()
        self._path = root.job_socket(job)
        self._idle_s = idle_s
        self._loop = EventLoop()
        self._connections: set[socket.socket] = set()
        self._is_ending = False
        self._status = 0
        self._idle_since = time.monotonic()
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        _remove_unused(os.path.dirname(self._path))
        self._listener = local_socket.listen(self._path)
        self._loop.watch(self._listener, self._accept)

    def serve(self) -> int:
        """Serve until the daemon is idle for too long, or a signal ends it and its runs; return the exit code."""
        spawn.adopt_orphans()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._loop.watch_signals({*ENDS, signal.SIGCHLD}, self._on_signals)
        while not self._is_done():
            self._loop.wait(self._idle_s)
        return self._status

    def _is_done(self) -> bool:
        """Reap children; return whether none is left and none is awaited."""
        if _has_children() or (self._connections and not self._is_ending):
            self._idle_since = time.monotonic()
            return False
        return self._is_ending or time.monotonic() >= self._idle_since + self._idle_s

    def _on_signals(self, arrived: set[int]) -> None:
        if arrived & ENDS:
            self._is_ending = True
            self._status = 0 if _GOOD in arrived else 1
            me = os.getpid()
            for child in processes.mine():
                if child.parent == me:
                    processes.send(child, signal.SIGTERM)

    def _accept(self) -> None:
        connected = local_socket.accept(self._listener)
        if connected is None:
            return
        connected.setblocking(False)
        self._connections.add(connected)
        self._loop.watch(connected, partial(self._answer, connected))

    def _answer(self, connected: socket.socket) -> None:
        """Start the supervisor that `connected` requests; forget a connection that ends or asks for no run."""
        try:
            request = connected.recv(LONGEST_REQUEST)
            if request and not self._is_ending:
                start_supervisor(self._root, self._root.run(request.decode("ascii").strip()))
                connected.sendall(b"\n")
                return
        except (OSError, UnicodeDecodeError, AgentError):
            if os.getpid() != self._pid:  # This is what became no supervisor, and must not be a second daemon.
                os._exit(1)
        self._loop.forget(connected)
        self._connections.discard(connected)
        connected.close()


def _remove_unused(directory: str) -> None:
    """Remove the sockets of daemons that have ended."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        try:
            local_socket.connect(path, ANSWERS_S).close()
        except ConnectionRefusedError:
            os.unlink(path)
        except OSError:
            continue


def _has_children() -> bool:
    """Reap the children that have ended; return whether others live."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def request_supervisor(root: NodeRoot, job: str, run: str) -> None:
    """Let the daemon of `job` start the supervisor of `run`. Raises AgentError when no daemon answers."""
    with contextlib.closing(kept(root, job)) as daemon, contextlib.suppress(OSError):
        daemon.settimeout(ANSWERS_S)
        daemon.sendall(f"{run}\n".encode("ascii"))
        daemon.recv(1)


def kept(root: NodeRoot, job: str) -> socket.socket:
    """Return a connection to the daemon of `job`, which may be starting; it lives while that is open.

    Raises AgentError without one.
    """
    for _ in range(int(STARTS_S / POLL_S)):
        with contextlib.suppress(OSError):
            return local_socket.connect(root.job_socket(job), ANSWERS_S)
        time.sleep(POLL_S)
    raise AgentError(f"the agent of Slurm job {job} does not run on this node: no answer within {STARTS_S:g} s")
