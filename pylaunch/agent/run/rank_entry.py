"""`agent.pyz rank`: the rank entry, which a launcher starts in place of each rank.

It gets the command of its rank from the supervisor, starts the rank with log files of its own, forwards signals,
reports how the rank ended and then ends the same way. The rank dies with its rank entry, which kills the rank when the
supervisor is gone. The messages are one JSON object per line:

    rank entry                    supervisor
    {local_rank, rank}       ──►
                             ◄──  {argv, env, outputs} | {refused}
    {started, time}          ──►
                             ◄──  {signal} …
    {ended, time, signalled} ──►  `ended` is the status of waitpid; `signalled`: the rank had been sent a signal

Each rank pays for what this module imports.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable

from pylaunch.agent.run import spawn
from pylaunch.agent.shared.sockets import local_socket

SOCKET = "PYLAUNCH_SOCKET"
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)

SAME_STOP_S = 2.0
"""Time within which a signal of the launcher and the same signal of the supervisor are one: both stop a failed run."""


def main() -> int:
    """Run one rank. Ends the process as the rank ended; returns only when the rank cannot start."""
    path = os.environ.pop(SOCKET, None)
    local_rank = os.environ.get("LOCAL_RANK")
    if path is None or local_rank is None:
        return _fail(f"{SOCKET} and LOCAL_RANK must be set: this command is for launchers under pylaunch")
    try:
        supervisor = local_socket.connect(path)
    except OSError as error:
        return _fail(f"the supervisor of this run does not answer at {path}: {error.strerror}")
    messages = supervisor.makefile("rb")
    _send(supervisor, {"local_rank": int(local_rank), "rank": int(os.environ.get("RANK", "-1"))})
    task = json.loads(messages.readline() or b'{"refused": "the supervisor of this run is gone"}')
    if "refused" in task:
        return _fail(task["refused"])
    wakeup = _watch_signals()
    env = {**os.environ, **task["env"]}
    pid, started = spawn.spawn(spawn.Exec(task["argv"], env, os.getcwd()), tuple(task["outputs"]))
    spawn.reached_gate(started)
    _send(supervisor, {"started": pid, "time": spawn.start_time(started) or time.time()})
    status, signalled = _wait(pid, supervisor, wakeup)
    _send(supervisor, {"ended": status, "time": time.time(), "signalled": signalled})
    spawn.end_like(status)
    return 0


def _fail(message: str) -> int:
    print(f"pylaunch: {message}", file=sys.stderr)
    return 1


def _send(supervisor: socket.socket, body: dict[str, object]) -> None:
    try:
        supervisor.sendall(json.dumps(body).encode() + b"\n")
    except (BrokenPipeError, ConnectionResetError):
        return


def _watch_signals() -> int:
    """Return a descriptor from which the number of each arriving signal can be read."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for signum in (*FORWARDED, signal.SIGCHLD):
        signal.signal(signum, _ignore)
    return reading


def _ignore(signum: int, frame: object) -> None:
    """Do nothing: the wakeup descriptor has the number of the signal already."""


class StopSignals:
    """Signals for the rank, each once: launcher and supervisor both stop the ranks of a failed run."""

    def __init__(self) -> None:
        self._ordered: set[int] = set()
        """Signals that the supervisor has sent. A launcher repeats them when it is stopped itself."""

        self._forwarded: dict[int, float] = {}
        """Time of the last signal of the launcher, by number."""

    def of_supervisor(self, signums: Iterable[int], now: float) -> list[int]:
        """Return those of `signums` that the launcher has not sent just before."""
        found = [each for each in signums if now - self._forwarded.get(each, -math.inf) >= SAME_STOP_S]
        self._ordered.update(signums)
        return found

    def of_launcher(self, signums: Iterable[int], now: float) -> list[int]:
        """Return those of `signums` that the supervisor has not sent."""
        found = [each for each in signums if each not in self._ordered]
        self._forwarded.update(dict.fromkeys(found, now))
        return found


def _wait(pid: int, supervisor: socket.socket, wakeup: int) -> tuple[int, bool]:
    sources: list[int] = [wakeup, supervisor.fileno()]
    stop = StopSignals()
    signalled = False
    while True:
        ready, _, _ = select.select(sources, [], [])
        signums = []
        if supervisor.fileno() in ready:
            orders = supervisor.recv(4096)
            if not orders:
                sources.remove(supervisor.fileno())
            ordered = [json.loads(line)["signal"] for line in orders.splitlines()] if orders else [signal.SIGKILL]
            signums = stop.of_supervisor(ordered, time.monotonic())
        if wakeup in ready:
            arrived = os.read(wakeup, 256)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status, signalled
            signums += stop.of_launcher([each for each in arrived if each in FORWARDED], time.monotonic())
        for signum in signums:
            signalled = True
            os.kill(pid, signum)
