"""`python -m pylaunch.runtime.ray_node`: a node of a Ray cluster that lasts as long as its driver.

    node 0                            node r
    listens, starts the head     ◄──  connects
    has joined                   ──►  port of the control store (GCS)
    starts the driver            ◄──  run and rank, when its Ray has joined
    the driver has ended         ──►  end of the connection: ends its Ray, and exits with 0

The cluster is a child of this process, `ray start --block`, and its daemons are children of that one. A node whose Ray
ends exits with 1. A connection that sends anything else is closed.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib import metadata, util
from typing import NamedTuple, NoReturn

JOINED = "ray_current_cluster"
"""File of `ray start` in its temporary directory: the address of the control store, once this node has joined."""

PORTS = ("--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0")
"""The kernel chooses all ports of a node, so that they are open to members, and free beside another Ray."""

OF_THE_DRIVER = ("PYLAUNCH_RANK_SOCKET", "PYLAUNCH_STEP_FILE", "TORCHELASTIC_ERROR_FILE")
"""Variables with which a process reports for the rank: the driver has them, and processes of Ray do not."""

RUN = os.environ.get("PYLAUNCH_RUN", "").encode()
OLDEST = (2, 55)
"""The first version of Ray with a temporary directory for each node."""

POLL_S = 0.2
CONNECT_S = 60.0
END_S = 10.0
NOTICE_S = 3.0
"""`ray start` looks at its daemons each second, and ends: a driver that lost one fails only after the node of that
daemon, also where that node is busy."""

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
            fail(f"Ray on this node ended with exit status {status}")
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


def check_version() -> None:
    """Exit with 1 without a usable Ray: this node would wait for an older one for ever."""
    try:
        found = metadata.version("ray")
    except metadata.PackageNotFoundError:
        fail(f"Ray is not installed for {sys.executable}: pip install ray, or --python of an environment that has it")
    if tuple(int(each) for each in re.findall(r"\d+", found)[:2]) < OLDEST:
        fail(f"Ray {found} has one temporary directory for all nodes: pip install 'ray>=2.55'")


def lead(node: Node, ray_arguments: list[str], driver: list[str]) -> int:
    """Be node 0: start the head, wait for all nodes, run the driver. Return its exit status."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    with socket.create_server(("", node.port), family=family, backlog=1024, dualstack_ipv6=both) as listener:
        head = ["--head", "--port=0", "--include-dashboard=false"]
        if util.find_spec("grpc") is not None:  # Ray's client server, which has port 10001 otherwise.
            with socket.create_server(("", 0)) as free:
                head.append(f"--ray-client-server-port={free.getsockname()[1]}")
        ray = Ray(node, [*head, *ray_arguments])
        address = ray.control_store()
        while address is None:
            time.sleep(POLL_S)
            address = ray.control_store()
        others = wait_for_nodes(listener, f"{address.rpartition(':')[2]}\n".encode(), node.nodes, ray)
    process = subprocess.Popen([sys.executable, "-u", *driver], env={**os.environ, "RAY_ADDRESS": address})
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    status, until = None, float("inf")
    while status is None or time.monotonic() < until:
        ray.control_store()
        if status is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(POLL_S)
                until = time.monotonic() + (NOTICE_S if status not in (0, -signal.SIGTERM) else 0.0)
        else:
            time.sleep(POLL_S)
    ray.end()
    for other in others:
        other.close()
    return status


def wait_for_nodes(listener: socket.socket, greeting: bytes, nodes: int, ray: Ray) -> list[socket.socket]:
    """Greet the other nodes until all have joined, and return their connections."""
    joined: dict[int, socket.socket] = {}

    def admit(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(greeting)
            run, _, rank = connection.makefile("rb").readline(MAX_LINE).rstrip().rpartition(b" ")
            if run == RUN and rank.isdigit() and 0 < int(rank) < nodes and joined.setdefault(int(rank), connection):
                return
        connection.close()

    listener.settimeout(POLL_S)
    while len(joined) < nodes - 1:
        ray.control_store()
        try:
            connection = listener.accept()[0]
        except OSError:  # Nobody, or strangers have all descriptors.
            time.sleep(POLL_S)
        else:
            threading.Thread(target=admit, args=(connection,), daemon=True).start()
    return list(joined.values())


def follow(node: Node, ray_arguments: list[str]) -> int:
    """Be another node: join the cluster, and leave it when node 0 has ended."""
    with _connected(node.head, node.port) as connection:
        line = connection.makefile("rb").readline(MAX_LINE)
        if not line:
            return 0  # Node 0 has ended, and reports why.
        if not re.fullmatch(rb"\d{1,5}\n", line):
            fail(f"{node.head} port {node.port} is not the first node of this run: it sent {line[:80]!r}")
        host = f"[{node.head}]" if ":" in node.head else node.head
        ray = Ray(node, [f"--address={host}:{int(line)}", *ray_arguments])
        # The driver gets SIGTERM, too, and may still need this node: its end ends the connection.
        signal.signal(signal.SIGTERM, lambda *_: None)
        has_joined = False
        while not select.select([connection], [], [], POLL_S)[0]:
            if ray.control_store() is not None and not has_joined:
                has_joined = True
                with contextlib.suppress(OSError):
                    connection.sendall(b"%b %d\n" % (RUN, node.rank))
        ray.end()
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
