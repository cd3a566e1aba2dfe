"""Bytes that a rank moves in files count, but for what it reads for us."""

import os
import threading
from pathlib import Path

from pylaunch.agent.evidence import rank_states
from pylaunch.agent.in_rank.questions import name_thread

SIZE = 100_000


def moved(pid: int) -> int:
    """Return the bytes of the rank whose first process is `pid`."""
    return rank_states.moved_bytes({3: pid})[3]


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
