"""Relay of a connection to a run on a node of a Slurm job: a program that loads no other module of pylaunch.

The daemon of the job has loaded the agent and forks the supervisor, so the relay needs none of it: its Python starts in
a tenth of the processor time of the archive. The controller sends this source in the command of the connection. When
anything is unusual, the process becomes `open` of the archive, which waits longer and reports the reason.
"""

from __future__ import annotations

import _socket
import _thread
import os
import sys
import time

WAITS_S = 10.0
"""For the daemon, which starts at the same time; then `open` waits for it."""

ANSWERS_S = 5.0
POLL_S = 0.005
CHUNK = 1 << 16
LONGEST_PATH = 4096


def main(archive: str, root: str, run: str, daemon: str) -> None:
    """Relay between stdin and stdout and the supervisor of `run`; `daemon` is the socket of the daemon of the job."""
    try:
        supervisor = connect(path_of_supervisor(run, daemon))
        received = supervisor.recv(CHUNK)
        if not received:
            raise ConnectionResetError
    except OSError:
        os.execv(sys.executable, [sys.executable, "-I", "-S", archive, "open", "--root", root, "--run", run])
    supervisor.settimeout(None)
    _thread.start_new_thread(forward_stdin, (supervisor,))
    try:
        while received:
            while received:
                received = received[os.write(1, received) :]
            received = supervisor.recv(CHUNK)
    except ConnectionResetError:
        os._exit(0)  # The supervisor was killed before it had read everything: gone, like any other.
    except OSError:
        os._exit(1)
    os._exit(0)


def path_of_supervisor(run: str, daemon: str) -> str:
    """Let the daemon start the supervisor of `run`, unless it has one, and return the path of its socket.

    Raises OSError, for a daemon that does not start in time, too.
    """
    deadline = time.monotonic() + WAITS_S
    while True:
        try:
            connected = connect(daemon)
            break
        except OSError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(POLL_S)
    try:
        connected.sendall(run.encode("ascii") + b"\n")
        answer = connected.recv(LONGEST_PATH)
    finally:
        connected.close()
    if not answer.endswith(b"\n"):
        raise ConnectionResetError
    return os.fsdecode(answer[:-1])


def connect(path: str) -> _socket.socket:
    """Connect to the listener at `path`, of any length, as `local_socket.connect` does. Raises OSError."""
    directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.settimeout(ANSWERS_S)
        connection.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
        return connection
    finally:
        os.close(directory)


def forward_stdin(supervisor: _socket.socket) -> None:
    """Copy stdin to `supervisor` until its end."""
    try:
        while True:
            chunk = os.read(0, CHUNK)
            if not chunk:
                break
            supervisor.sendall(chunk)
        supervisor.shutdown(_socket.SHUT_WR)
    except OSError:
        return


if __name__ == "__main__":
    main(*sys.argv[1:])
