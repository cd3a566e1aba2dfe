"""`python -m pylaunch.runtime.ray_node`: a node of a Ray cluster that lasts as long as its driver.

    node 0                            node r
    listens, starts the head     ◄──  connects
    has joined                   ──►  port of the control store (GCS)
    starts the driver            ◄──  run and rank, when its Ray has joined
    the driver has ended         ──►  "end": ends its Ray, after "failed" once it has watched it
    waits for both               ◄──  "fine" of a Ray that has not ended, or the end of the connection
    has ended                    ──►  end of the connection: ends with exit status 0, after node 0

The cluster is a child of this process, `ray start --block`, and its daemons are children of that one. A node whose Ray
ends exits with 1. A connection that sends anything else is closed.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from importlib import metadata, util
from typing import NamedTuple, NoReturn

from pylaunch.runtime.rollcall import listen

JOINED = "ray_current_cluster"
"""File of `ray start` in its temporary directory: the address of the control store, once this node has joined."""

PORTS = ("--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0")
"""The kernel chooses all ports of a node, so that they are open to members, and free beside another Ray."""

OF_THE_DRIVER = ("PYLAUNCH_RANK_SOCKET", "PYLAUNCH_STEP_FILE", "TORCHELASTIC_ERROR_FILE")
"""Variables with which a process reports for the rank: the driver has them, and processes of Ray do not."""

RUN = os.environ.get("PYLAUNCH_RUN", "").encode()
FAILED = b"failed\n"
PORT = re.compile(rb"\d{1,5}\n")
DAEMON = re.compile(r"END (\w+)\.\w+ tail \(exit code\(s\)=(.+)\) -----")
"""Line of `ray start --block` about a daemon that ended."""

OLDEST = (2, 55)
"""The first version of Ray with a temporary directory for each node."""

POLL_S = 0.2
CONNECT_S = 60.0
END_S = 10.0
NOTICE_S = 2.0
"""`ray start` looks at its daemons each second: a driver that lost one may fail before the node of that daemon does,
so each node watches its Ray for this long after the driver has failed."""

AFTER_S = 0.5
"""A rank that exits with code 0 before one that fails looks like one that left the others."""

TAIL = 20
MAX_LINE = 200


class Node(NamedTuple):
    """Place of this node in the cluster."""

    rank: int
    nodes: int
    head: str
    """Address of node 0."""

    port: int
    address: str
    directory: str


class Ray:
    """`ray start --block` on this node."""

    def __init__(self, node: Node, arguments: list[str]) -> None:
        self._output = os.path.join(node.directory, "ray-start.out")
        self._joined = os.path.join(node.directory, JOINED)
        env = {name: value for name, value in os.environ.items() if name not in OF_THE_DRIVER}
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        command += [f"--temp-dir={node.directory}", f"--node-ip-address={node.address}", *PORTS, *arguments]
        with open(self._output, "wb") as output:
            self._process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def control_store(self) -> str | None:
        """Return the address of the control store; None until this node has joined. Exits with 1 if Ray has ended."""
        status = self._process.poll()
        if status is not None:
            with open(self._output, encoding="utf-8", errors="replace") as output:
                lines = [line.rstrip() for line in output if line.strip() and "[state-dump]" not in line]
            sys.stderr.write("\n".join([*lines[-TAIL:], ""]))
            daemon = next((found for found in map(DAEMON.search, reversed(lines)) if found), None)
            fail(
                "{} of Ray ended with exit code {}".format(*daemon.groups())
                if daemon
                else f"Ray on this node ended with {described(status)}"
            )
        with contextlib.suppress(OSError), open(self._joined, encoding="utf-8") as source:
            address = source.read(MAX_LINE).strip()
            return address if address.rpartition(":")[2].isdecimal() else None
        return None

    def end(self) -> None:
        """Stop Ray on this node. The agent ends what is left."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)


def fail(reason: str) -> NoReturn:
    """End this node with exit status 1 and `reason` as its last line."""
    sys.exit(f"error: {reason}")


def described(status: int) -> str:
    """Return an exit status of subprocess in words."""
    return f"exit code {status}" if status >= 0 else signal.Signals(-status).name


def check_version() -> None:
    """Exit with 1 without a usable Ray."""
    try:
        found = metadata.version("ray")
    except metadata.PackageNotFoundError:
        fail(f"Ray is not installed for {sys.executable}: pip install ray, or --python of an environment that has it")
    if tuple(int(each) for each in re.findall(r"\d+", found)[:2]) < OLDEST:
        fail(f"Ray {found} has one temporary directory for all nodes: pip install 'ray>=2.55'")


def note_others() -> None:
    """Name other clusters of Ray on this node: both run, and each counts all processors and the memory as its own."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", "rb") as comm:
            if comm.read() != b"raylet\n":
                continue
            owner, ours = os.fstat(comm.fileno()).st_uid, False
            with contextlib.suppress(PermissionError), open(f"/proc/{pid}/environ", "rb") as environ:
                ours = b"PYLAUNCH_RUN=" + RUN in environ.read().split(b"\0")
            if not ours:
                sys.stderr.write(f"note: another Ray is on this node: raylet, pid {pid} of user {owner}\n")


def lead(node: Node, ray_arguments: list[str], driver: list[str]) -> int:
    """Be node 0: start the head, wait for all nodes, run the driver. Return its exit status."""
    with contextlib.closing(listen(node.port)) as listener, contextlib.ExitStack() as connections:
        head = ["--head", "--port=0", "--include-dashboard=false"]
        if util.find_spec("grpc") is not None:  # Ray's client server, which has port 10001 otherwise.
            with socket.create_server(("", 0)) as free:
                head.append(f"--ray-client-server-port={free.getsockname()[1]}")
        ray = Ray(node, [*head, *ray_arguments])
        address = ray.control_store()
        while address is None:
            time.sleep(POLL_S)
            address = ray.control_store()
        greeting = f"{address.rpartition(':')[2]}\n".encode()
        others = _wait_for_nodes(listener, connections, greeting, node.nodes, ray)
        command = [sys.executable, "-u", *driver]
        process = subprocess.Popen(command, env={**os.environ, "RAY_ADDRESS": address})
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        for signum in (signal.SIGUSR1, signal.SIGUSR2):  # --checkpoint-signal
            signal.signal(signum, lambda number, _: _pass_on(process, number))
        status = None
        while status is None:
            ray.control_store()
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(POLL_S)
        has_failed = status not in (0, -signal.SIGTERM)
        for other in others:
            with contextlib.suppress(OSError):
                other.sendall(FAILED if has_failed else b"end\n")
        if has_failed:
            watch(ray)
            _wait_for_answers(others)
        ray.end()
    return status


def watch(ray: Ray) -> None:
    """Watch Ray for NOTICE_S. Exits with 1 if it ends."""
    until = time.monotonic() + NOTICE_S
    while time.monotonic() < until:
        ray.control_store()
        time.sleep(POLL_S)


def _wait_for_answers(others: list[socket.socket]) -> None:
    """Wait until the other nodes have watched their Ray; longer if one has ended, so that it has failed first."""
    until = time.monotonic() + END_S
    for other in others:
        other.settimeout(max(POLL_S, until - time.monotonic()))
        if not _received(other):
            time.sleep(AFTER_S)
            return


def _pass_on(process: subprocess.Popen[bytes], signum: int) -> None:
    """Send the driver a signal that it handles; another one would end it."""
    path = f"/proc/{process.pid}/status"
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as status:
        caught = next((line.split()[1] for line in status if line.startswith("SigCgt:")), "0")
        if int(caught, 16) >> (signum - 1) & 1:
            process.send_signal(signum)


def _wait_for_nodes(
    listener: socket.socket, connections: contextlib.ExitStack, greeting: bytes, nodes: int, ray: Ray
) -> list[socket.socket]:
    """Greet the other nodes until all have joined, and return their connections, which `connections` closes."""
    joined: dict[int, socket.socket] = {}
    received: dict[socket.socket, bytes] = {}
    selector = connections.enter_context(selectors.DefaultSelector())
    selector.register(listener, selectors.EVENT_READ)
    while len(joined) < nodes - 1:
        ray.control_store()
        for key, _ in selector.select(POLL_S):
            if key.fileobj is listener:
                try:
                    connection = connections.enter_context(listener.accept()[0])
                except OSError:  # Strangers have all descriptors.
                    time.sleep(POLL_S)
                    continue
                connection.settimeout(END_S)
                with contextlib.suppress(OSError):
                    connection.sendall(greeting)
                selector.register(connection, selectors.EVENT_READ, connection)
                received[connection] = b""
                continue
            connection = key.data
            chunk = _received(connection)
            line = received[connection] = received[connection] + chunk
            run, _, rank = line.rpartition(b" ")
            if run == RUN and chunk.endswith(b"\n") and rank[:-1].isdigit() and 0 < int(rank) < nodes:
                joined.setdefault(int(rank), connection)
            elif not chunk or line.endswith(b"\n") or len(line) > len(RUN) + 1 + len(str(nodes)):
                selector.unregister(connection)
                del received[connection]
                connection.close()
    return list(joined.values())


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(MAX_LINE)
    except OSError:
        return b""


def follow(node: Node, ray_arguments: list[str]) -> int:
    """Be another node: join the cluster, and leave it when node 0 has ended."""
    with _connected(node.head, node.port) as connection:
        line = b""
        while not line.endswith(b"\n"):
            chunk = _received(connection)
            line += chunk
            if not chunk:
                return 0  # Node 0 has ended, and reports why.
            if len(line) > len(b"65535\n"):
                break
        if PORT.fullmatch(line) is None:
            fail(f"{node.head} port {node.port} is not the first node of this run: it sent {line[:80]!r}")
        host = f"[{node.head}]" if ":" in node.head else node.head
        ray = Ray(node, [f"--address={host}:{int(line)}", *ray_arguments])
        # The driver gets SIGTERM, too, and may still need this node: its end ends the connection.
        signal.signal(signal.SIGTERM, lambda *_: None)
        has_joined = False
        while True:
            if ray.control_store() is not None and not has_joined:
                has_joined = True
                with contextlib.suppress(OSError):
                    connection.sendall(b"%b %d\n" % (RUN, node.rank))
            if select.select([connection], [], [], POLL_S)[0]:
                order = _received(connection)
                break
        if order == FAILED:
            watch(ray)
            with contextlib.suppress(OSError):
                connection.sendall(b"fine\n")
        ray.end()
        if order:
            connection.settimeout(2 * END_S)
            _received(connection)
    time.sleep(AFTER_S)
    return 0


def _connected(address: str, port: int) -> socket.socket:
    """Return a connection to node 0, which may not listen yet."""
    until = time.monotonic() + CONNECT_S
    while True:
        try:
            connection = socket.create_connection((address, port), timeout=CONNECT_S)
        except OSError as error:
            if time.monotonic() > until:
                fail(f"no connection to the first node at {address} port {port}: {error.strerror or error}")
            time.sleep(POLL_S)
        else:
            connection.settimeout(None)
            return connection


def main(words: list[str]) -> int:
    """Run this node and return its exit status."""
    at = words.index("--")
    rank, nodes, head, port, address, directory, *ray_arguments = words[:at]
    node = Node(int(rank), int(nodes), head, int(port), address, directory)
    check_version()
    note_others()
    if node.rank:
        return follow(node, ray_arguments)
    status = lead(node, ray_arguments, words[at + 1 :])
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL, which has no handler.
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
