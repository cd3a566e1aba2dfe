"""Nodes of a Ray cluster before Ray starts: its version, and connections to the first node."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from pylaunch.runtime import ray_node
from pylaunch.runtime.ray_node import Node


@pytest.fixture
def first_node() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def joins(listener: socket.socket, greeting: bytes) -> int:
    """Return the exit status of a node that the first node greets with this line."""

    def greet() -> None:
        with listener.accept()[0] as connection:
            connection.sendall(greeting)

    thread = threading.Thread(target=greet)
    thread.start()
    try:
        return ray_node.follow(Node(1, 2, "127.0.0.1", listener.getsockname()[1], "127.0.0.1", "/nowhere"), [])
    finally:
        thread.join()


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n", b"x\n", b"9" * 300])
def test_a_node_that_is_greeted_by_another_program_names_it(first_node: socket.socket, greeting: bytes) -> None:
    with pytest.raises(SystemExit, match="is not the first node of this run: it sent"):
        joins(first_node, greeting)


def test_a_node_whose_head_ends_before_it_has_joined_is_no_failure(first_node: socket.socket) -> None:
    assert joins(first_node, b"") == 0


def test_a_ray_that_is_missing_or_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2.54.1")
    with pytest.raises(SystemExit, match=r"Ray 2\.54\.1 has one temporary directory for all nodes"):
        ray_node.check_version()
    monkeypatch.undo()
    with pytest.raises(SystemExit, match="Ray is not installed for "):
        ray_node.check_version()


class JoinedRay:
    """Ray of the first node, which has joined."""

    def control_store(self) -> str:
        return "127.0.0.1:6379"


def test_the_driver_waits_for_each_rank_once_and_for_nothing_that_strangers_send(
    first_node: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_node, "RUN", b"c0ffee11")
    port = first_node.getsockname()[1]
    waiting = threading.Thread(target=ray_node.wait_for_nodes, args=(first_node, b"6379\n", 3, JoinedRay()))
    waiting.start()
    with contextlib.ExitStack() as there:
        member = b"c0ffee11 1\n"
        for line in (b"GET / HTTP/1.0\r\n", b"1\n", b"c0ffee12 1\n", b"c0ffee11 7\n", b"c0ffee11 0\n", member, member):
            connection = there.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            assert connection.recv(100) == b"6379\n"
            connection.sendall(line)
            if line != member:
                assert connection.recv(1) == b""
        assert waiting.is_alive()
        connection = there.enter_context(socket.create_connection(("127.0.0.1", port)))
        connection.sendall(b"c0ffee11 2\n")
        waiting.join(60)
        assert not waiting.is_alive()
