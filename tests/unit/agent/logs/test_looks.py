"""Logs are looked at on the kernel's notice, at most 20 times a second, and now and then without one."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch.agent.logs.looks import EVERY_S, IDLE_S, Looks
from pylaunch.agent.shared.event_loop import EventLoop

WAIT_S = 20.0


@pytest.fixture
def arrived() -> Iterator[tuple[EventLoop, list[int]]]:
    """A loop, and the signals of the kernel that it has received."""
    before = signal.getsignal(signal.SIGIO)
    loop = EventLoop()
    found: list[int] = []
    loop.watch_signals({signal.SIGIO}, found.extend)
    yield loop, found
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGIO, before)


def test_a_write_to_a_file_of_the_directory_is_news(tmp_path: Path, arrived: tuple[EventLoop, list[int]]) -> None:
    loop, signals = arrived
    with (tmp_path / "0.out").open("wb", buffering=0) as log:
        looks = Looks({str(tmp_path): fcntl.DN_MODIFY})
        looks.begin(100.0)
        assert looks.next(100.0) == 100.0 + IDLE_S
        log.write(b"step 1\n")
        loop.wait(WAIT_S)
    assert signals == [signal.SIGIO]


def test_the_time_of_a_file_is_news_where_it_is_asked_for(tmp_path: Path, arrived: tuple[EventLoop, list[int]]) -> None:
    loop, signals = arrived
    stacks = tmp_path / "0.stacks"
    stacks.touch()
    looks = Looks({str(tmp_path): fcntl.DN_ATTRIB})
    looks.begin(100.0)
    os.utime(stacks, (1.0, 1.0))
    loop.wait(WAIT_S)
    assert signals == [signal.SIGIO]


def test_news_are_asked_for_once_a_look_however_often_the_file_grows(
    tmp_path: Path, arrived: tuple[EventLoop, list[int]]
) -> None:
    loop, signals = arrived
    with (tmp_path / "0.out").open("wb", buffering=0) as log:
        looks = Looks({str(tmp_path): fcntl.DN_MODIFY})
        looks.begin(100.0)
        for _ in range(3):
            log.write(b"step\n")
            loop.wait(0.0)
            if signals:
                looks.changed()
            looks.begin(100.01)
        assert signals == [signal.SIGIO]
        assert looks.next(100.01) == 100.0 + EVERY_S
        looks.begin(100.0 + EVERY_S)
        assert looks.next(100.06) == 100.06 + IDLE_S


def test_without_notices_of_the_kernel_logs_are_looked_at_20_times_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> None:
        raise OSError("no dnotify")

    looks = Looks({str(tmp_path): fcntl.DN_MODIFY})
    monkeypatch.setattr(fcntl, "fcntl", refused)
    looks.begin(100.0)
    assert looks.next(100.0) == 100.0 + EVERY_S
    looks.begin(100.0 + EVERY_S)
    assert looks.next(100.0 + EVERY_S) == 100.0 + 2 * EVERY_S


def test_a_directory_that_is_made_later_is_watched_from_then_on(
    tmp_path: Path, arrived: tuple[EventLoop, list[int]]
) -> None:
    loop, signals = arrived
    logs = tmp_path / "logs"
    looks = Looks({str(logs): fcntl.DN_MODIFY})
    looks.begin(100.0)
    assert looks.next(100.0) == 100.0 + EVERY_S
    logs.mkdir()
    with (logs / "0.out").open("wb", buffering=0) as log:
        looks.begin(100.0 + EVERY_S)
        log.write(b"step 1\n")
        loop.wait(WAIT_S)
    assert signals == [signal.SIGIO]
