"""`agent.pyz rank`: what a launcher starts in place of each rank.

It asks the supervisor what its rank is, starts it with its own log files, passes signals on, and reports the exact end
before it ends the same way itself. The rank dies with the shim, and the shim ends its rank when the supervisor is gone.
What it says to the supervisor, one JSON object a line:

    shim                          supervisor
    {local_rank, rank}       ──►
                             ◄──  {argv, env, outputs} | {refused}
    {started, time}          ──►
                             ◄──  {signal} …
    {ended, time, told}      ──►  `ended` is the status of waitpid; told: it had been sent a signal

Nothing slow to import is imported here: a node pays for it once per rank.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

from pylaunch.agent.run import spawn
from pylaunch.agent.shared import local_socket

SOCKET = "PYLAUNCH_SOCKET"
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> int:
    """Be one rank. Does not return once the rank has run."""
    path = os.environ.pop(SOCKET, None)
    local_rank = os.environ.get("LOCAL_RANK")
    if path is None or local_rank is None:
        return _fail(f"{SOCKET} and LOCAL_RANK must be set: this is started by a launcher under pylaunch")
    try:
        supervisor = local_socket.connect(path)
    except OSError as error:
        return _fail(f"the supervisor of this run does not answer at {path}: {error.strerror}")
    said = supervisor.makefile("rb")
    _send(supervisor, {"local_rank": int(local_rank), "rank": int(os.environ.get("RANK", "-1"))})
    task = json.loads(said.readline() or b'{"refused": "the supervisor of this run is gone"}')
    if "refused" in task:
        return _fail(task["refused"])
    wakeup = _watch_signals()
    env = {**os.environ, **task["env"]}
    pid, started = spawn.spawn(task["argv"], env, os.getcwd(), (task["outputs"][0], task["outputs"][1]))
    spawn.has_come_to_gate(started)
    _send(supervisor, {"started": pid, "time": spawn.start_time(started) or time.time()})
    status, told = _wait(pid, supervisor, wakeup)
    _send(supervisor, {"ended": status, "time": time.time(), "told": told})
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
    """A descriptor from which the number of every signal that arrives can be read."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for signum in (*PASSED_ON, signal.SIGCHLD):
        signal.signal(signum, _noted)
    return reading


def _noted(signum: int, frame: object) -> None:
    """The wakeup descriptor has it already."""


def _wait(pid: int, supervisor: socket.socket, wakeup: int) -> tuple[int, bool]:
    sources: list[int] = [wakeup, supervisor.fileno()]
    ordered: set[int] = set()
    told = False
    while True:
        ready, _, _ = select.select(sources, [], [])
        signums = []
        if supervisor.fileno() in ready:
            orders = supervisor.recv(4096)
            if not orders:
                sources.remove(supervisor.fileno())
            signums = [json.loads(line)["signal"] for line in orders.splitlines()] if orders else [signal.SIGKILL]
            ordered.update(signums)
        if wakeup in ready:
            arrived = os.read(wakeup, 256)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status, told
            signums += [signum for signum in arrived if signum in PASSED_ON and signum not in ordered]
        for signum in signums:
            told = True
            os.kill(pid, signum)
