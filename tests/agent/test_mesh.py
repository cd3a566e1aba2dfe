"""The network test between nodes, as two Pythons of this machine and peers that misbehave."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pylaunch.agent.piped import mesh
from pylaunch.agent.piped.mesh import BULK
from pylaunch.agent.shared import leases
from pylaunch.probe.program import BEGUN, STREAMED, program, streamed
from tests.ports import free_port
from tests.waiting import DEADLINE_S


class Node:
    """One node's program, as the controller uses it."""

    def __init__(self, name: str, port: int | None = None) -> None:
        self.name = name
        self._process = subprocess.Popen([sys.executable, *STREAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        self._process.stdin.write(streamed(program(mesh.main, BEGUN)))
        self.listening = self.ask({"name": name, "conversation": "c", "port": port})["listening"]

    def send(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, order: dict[str, Any]) -> Any:
        self.send(order)
        return self.receive()

    def close(self) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._process.stdin, self._process.stdout:
            pass
        return self._process.wait(DEADLINE_S)


@contextlib.contextmanager
def nodes(*names: str) -> Iterator[list[Node]]:
    found = [Node(name) for name in names]
    yield found
    assert [node.close() for node in found] == [0] * len(found)


def entry(name: str, **ports: int) -> dict[str, Any]:
    return {"name": name, "address": "127.0.0.1", "ports": ports}


def test_nodes_that_connect_to_each_other_at_once_report_every_connection() -> None:
    with nodes("n1", "n2", "n3") as found:
        table = {node.name: entry(node.name, **node.listening["ports"]) for node in found}
        for node in found:
            node.send({"connect": [each for name, each in table.items() if name != node.name]})
        for node in found:
            row = node.receive()["row"]
            assert set(row) == set(table) - {node.name}
            for ends in row.values():
                assert set(ends) == {"ephemeral"}
                assert {each["end"] for each in ends.values()} == {"ok"}


def test_a_node_answers_pings_and_a_table_without_peers() -> None:
    with nodes("n1") as (node,):
        assert node.ask({"ping": True})["time"] > 0
        assert node.ask({"connect": []}) == {"row": {}}
        assert node.ask({"ping": True})["time"] > 0


def test_a_node_reports_the_holder_of_the_rendezvous_port() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        node = Node("n1", port)
        assert "rendezvous" not in node.listening["ports"]
        assert "pid" in node.listening["taken"]["by"]
        assert node.close() == 0
    node = Node("n1", port)
    assert node.listening["ports"]["rendezvous"] == port
    holder = leases.holder(leases.port_name(port))
    assert holder is not None
    assert holder.run == leases.PROBE
    assert node.close() == 0


def row_here(peer: dict[str, Any]) -> dict[str, Any]:
    """Connect to `peer` from this process, with its time limits."""
    return mesh.MeshNode("n1", "c").connect([peer])


def introduced(name: str, conversation: str = "c") -> bytes:
    return json.dumps({"conversation": conversation, "name": name}).encode() + b"\n"


@pytest.mark.parametrize(
    ("answers", "end"),
    [
        ([b""], "closed"),
        ([b"SSH-2.0-x\r\n"], "stranger"),
        ([introduced("n7")], "other"),
        ([introduced("n2"), b""], "closed"),
        ([introduced("n2"), b"whole\n"], "ok"),
    ],
)
def test_a_peer_that_is_no_node_of_this_check_is_reported(answers: list[bytes], end: str) -> None:
    """`answers` to the introduction and to the bulk; b"" closes."""

    def answer() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as received:
            received.readline()
            for number, each in enumerate(answers):
                if number:
                    received.read(BULK)
                if not each:
                    return
                connection.sendall(each)
            over.wait(DEADLINE_S)

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server, nodes("n1") as (node,):
        thread = threading.Thread(target=answer)
        thread.start()
        row = node.ask({"connect": [entry("n2", a=server.getsockname()[1])]})["row"]
        over.set()
        thread.join()
        assert row["n2"]["a"]["end"] == end


class Peer:
    """A peer that sends its introduction, does something else for a while, and then reads and answers the bulk."""

    def __init__(self, *, introduces: bool = True, receive_buffer: int | None = None) -> None:
        self.server = socket.socket()
        if receive_buffer is not None:
            self.server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.server.bind(("127.0.0.1", 0))
        self.server.listen()
        self._introduces = introduces
        self.goes_on = threading.Event()
        self._thread = threading.Thread(target=self._answer)

    def _answer(self) -> None:
        connection, _ = self.server.accept()
        with connection, connection.makefile("rb") as received, contextlib.suppress(ConnectionError):
            received.readline()
            if self._introduces:
                connection.sendall(introduced("n2"))
            self.goes_on.wait(DEADLINE_S)
            received.read(BULK)
            connection.sendall(b"whole\n")

    def end_here(self) -> str:
        """Connect to this peer from this process; return the result."""
        with self.server:
            self._thread.start()
            row = row_here(entry("n2", a=self.server.getsockname()[1]))
            self.goes_on.set()
            self._thread.join()
        return str(row["n2"]["a"]["end"])


def test_a_peer_that_accepts_and_never_answers_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh, "ANSWER_S", 0.2)
    assert Peer(introduces=False).end_here() == "mute"


def test_bytes_that_nobody_acknowledges_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh, "ANSWER_S", 0.2)
    assert Peer(receive_buffer=1024).end_here() == "stalled"


def test_a_name_server_that_does_not_answer_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def addresses(*_: object) -> list[object]:
        over.wait(DEADLINE_S)
        return []

    monkeypatch.setattr(mesh, "STEP_S", 0.1)
    monkeypatch.setattr(mesh, "_addresses", addresses)
    row = row_here(entry("n2", a=1))
    over.set()
    assert row == {"n2": {"a": {"end": "nameless", "text": "no name server answers"}}}


def test_a_refused_and_a_full_port_are_reported_and_do_not_hold_up_others() -> None:
    with socket.socket() as free, socket.socket() as full, nodes("n1", "n2") as (node, other):
        free.bind(("127.0.0.1", 0))
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        ports = {"free": free.getsockname()[1], "full": full.getsockname()[1], **other.listening["ports"]}
        row = node.ask({"connect": [entry("n2", **ports)]})["row"]["n2"]
        assert {kind: each["end"] for kind, each in row.items()} == {
            "free": "refused", "full": "silent", "ephemeral": "ok",
        }  # fmt: skip
        for each in waiting:
            each.close()
