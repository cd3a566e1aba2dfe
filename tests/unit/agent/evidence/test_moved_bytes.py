"""Bytes that a rank moves count wherever they move, but for heartbeats that it answers and what it reads for us."""

import os
import socket
import threading
from pathlib import Path

from pylaunch.agent.evidence.ranks import moved_bytes
from pylaunch.agent.in_rank.questions import name_thread

SIZE = 100_000


def moved(pid: int) -> int:
    """Return the bytes of the rank whose first process is `pid`."""
    return moved_bytes.of_ranks({3: pid})[3]


def test_bytes_of_files_count(tmp_path: Path) -> None:
    before = moved(os.getpid())
    (tmp_path / "data").write_bytes(bytes(SIZE))
    assert moved(os.getpid()) - before >= SIZE


def test_bytes_that_a_connection_receives_count_for_the_side_that_opened_it() -> None:
    """The store of torch accepts those of all ranks, and answers their heartbeats."""

    def of(end: socket.socket) -> int:
        return moved_bytes.tcp_bytes().get(str(Path(f"/proc/self/fd/{end.fileno()}").readlink()), 0)

    with socket.create_server(("127.0.0.1", 0)) as server:
        opened = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with opened, accepted:
            before = of(opened), of(accepted), moved(os.getpid())
            accepted.sendall(bytes(SIZE))
            received = 0
            while received < SIZE:
                received += len(opened.recv(SIZE))
            assert (of(opened) - before[0], of(accepted) - before[1]) == (SIZE, 0)
            assert moved(os.getpid()) - before[2] >= SIZE


def test_what_the_thread_reads_that_answers_the_agent_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(SIZE))
    has_read, may_end = threading.Event(), threading.Event()

    def read(*, answers: bool) -> None:
        if answers:
            name_thread(threading.get_native_id())
        (tmp_path / "data").read_bytes()
        has_read.set()
        may_end.wait()

    for answers in (True, False):
        has_read.clear()
        may_end.clear()
        before = moved(os.getpid())
        thread = threading.Thread(target=read, kwargs={"answers": answers})
        thread.start()
        has_read.wait()
        after = moved(os.getpid())
        may_end.set()
        thread.join()
        assert (after - before >= SIZE) is not answers
