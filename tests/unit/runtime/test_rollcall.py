"""Roll call over real sockets on loopback, with a thread per rank."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from pylaunch.runtime.rollcall import RollCallClient, RollCallServer
from tests.ports import free_port

LONG_S = 60.0
SHORT_S = 0.3


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def client(port: int, rank: int, run: str = "r1") -> RollCallClient:
    return RollCallClient(("127.0.0.1", port), rank, run)


def answered(rank: RollCallClient) -> frozenset[int]:
    """Return the missing ranks of the first answer of rank 0."""
    until = time.monotonic() + LONG_S
    while (missing := rank.attempt(SHORT_S)) == {0}:
        assert time.monotonic() < until
    return missing


@dataclass
class AtRank0:
    """Server of rank 0, which tries in a thread until it is stopped."""

    caller: RollCallServer
    is_stopped: threading.Event
    calls: Future[frozenset[int]] | None = None

    def call(self) -> frozenset[int]:
        missing = self.caller.attempt(0.1)
        while not self.is_stopped.is_set():
            missing = self.caller.attempt(0.1)
        return missing

    def missing(self) -> frozenset[int]:
        """Return the missing ranks of the last try."""
        assert self.calls is not None
        return self.calls.result()


@contextlib.contextmanager
def calling(threads: ThreadPoolExecutor, caller: RollCallServer) -> Iterator[AtRank0]:
    at_rank_0 = AtRank0(caller, threading.Event())
    at_rank_0.calls = threads.submit(at_rank_0.call)
    try:
        yield at_rank_0
    finally:
        at_rank_0.is_stopped.set()


def test_all_ranks_connect_and_the_port_is_free_again(port: int, threads: ThreadPoolExecutor) -> None:
    ranks = [threads.submit(client(port, rank).attempt, LONG_S) for rank in (1, 2)]
    assert RollCallServer(port, 3, "r1").attempt(LONG_S) == frozenset()
    assert [rank.result() for rank in ranks] == [frozenset(), frozenset()]
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("", port))
        again.listen()


def test_every_rank_learns_who_is_missing_and_the_next_try_succeeds(port: int, threads: ThreadPoolExecutor) -> None:
    second = client(port, 2)
    with calling(threads, RollCallServer(port, 4, "r1")) as at_rank_0:
        assert answered(second) == {1, 3}
    assert at_rank_0.missing() == {1, 3}
    others = [threads.submit(client(port, rank).attempt, LONG_S) for rank in (1, 3)]
    again = threads.submit(second.attempt, LONG_S)
    assert at_rank_0.caller.attempt(LONG_S) == frozenset()
    assert again.result() == frozenset()
    assert [other.result() for other in others] == [frozenset(), frozenset()]


def test_rank_0_is_missing_while_nobody_answers(port: int) -> None:
    assert client(port, 1).attempt(SHORT_S) == {0}


def test_rank_0_is_missing_while_somebody_else_has_its_port(port: int) -> None:
    with socket.socket() as foreign:
        foreign.bind(("127.0.0.1", port))
        foreign.listen()
        rank = client(port, 1)
        assert rank.attempt(SHORT_S) == {0}
        rank.close()


def test_strangers_and_ranks_of_another_run_are_not_counted(port: int, threads: ThreadPoolExecutor) -> None:
    second = client(port, 2)
    with calling(threads, RollCallServer(port, 3, "r1")) as at_rank_0:
        assert answered(second) == {1}
        other = client(port, 1, run="r2")
        assert other.attempt(SHORT_S) == {0}
        other.close()
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert stranger.recv(1) == b""
    assert at_rank_0.missing() == {1}
    at_rank_0.caller.close()


def test_a_rank_that_connected_and_died_is_missing_again(port: int, threads: ThreadPoolExecutor) -> None:
    first, second = client(port, 1), client(port, 2)
    with calling(threads, RollCallServer(port, 4, "r1")) as at_rank_0:
        assert answered(second) == {1, 3}
        assert answered(first) == {3}
        first.close()
        until = time.monotonic() + LONG_S
        while second.attempt(0.01) != {1, 3}:
            assert time.monotonic() < until
    assert at_rank_0.missing() == {1, 3}
    at_rank_0.caller.close()
    second.close()
