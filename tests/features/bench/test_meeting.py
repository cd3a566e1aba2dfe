"""Meeting of ranks over real sockets on loopback, with a thread per rank."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pylaunch.features.bench.ranks.meeting import MissingRanksError, meet
from pylaunch.runtime.place import LaunchError, Place
from tests.ports import free_port

LONG_S = 60.0


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    monkeypatch.setenv("PYLAUNCH_RUN", "r1")
    with ThreadPoolExecutor(8) as pool:
        yield pool


def place(port: int, rank: int, world_size: int = 3) -> Place:
    return Place(rank, world_size, 0, 1, "127.0.0.1", port, "variables")


def test_all_ranks_connect_and_the_port_is_free_again(port: int, threads: ThreadPoolExecutor) -> None:
    others = [threads.submit(meet, place(port, rank), LONG_S) for rank in (1, 2)]
    meet(place(port, 0), LONG_S)
    for each in others:
        each.result()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("", port))
        again.listen()


def test_ranks_that_do_not_come_are_named(port: int, threads: ThreadPoolExecutor) -> None:
    first = threads.submit(meet, place(port, 0, 4), 2.0)
    with pytest.raises(MissingRanksError, match="rank 0 of 4 did not connect within 2 s"):
        meet(place(port, 2, 4), 2.0)
    with pytest.raises(MissingRanksError, match="of 4 did not connect within 2 s: see their last output"):
        first.result()


def test_strangers_and_ranks_of_another_run_are_none(port: int, threads: ThreadPoolExecutor) -> None:
    first = threads.submit(meet, place(port, 0, 2), LONG_S)
    for line in (b"", b"GET / HTTP/1.0\r\n\r\n", b"r2 1\n", b"r1 0\n", b"r1 2\n", b"r1 x\n", b"\xff" * 300):
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), LONG_S) as stranger:
                    stranger.sendall(line)
                    stranger.shutdown(socket.SHUT_WR)
                    assert stranger.recv(10) == b""
                break
            except ConnectionRefusedError:
                continue
            except OSError:
                break
    assert not first.done()
    meet(place(port, 1, 2), LONG_S)
    first.result()


def test_a_port_of_somebody_else_is_named(port: int) -> None:
    with (
        socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True),
        pytest.raises(LaunchError, match=f"rank 0 cannot listen on port {port}: Address already in use"),
    ):
        meet(place(port, 0), LONG_S)
