"""The kernel log is read from a FIFO, which answers like /dev/kmsg: EAGAIN when nothing is new."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch.agent.evidence.kernel_messages import KernelLog
from pylaunch.agent.shared import cgroups

KILL = "Memory cgroup out of memory: Killed process 4121 (python3) total-vm:5247896kB"


@pytest.fixture
def seeks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a socket pair stand for the device, which a unit test cannot write: its seek is the only difference."""
    monkeypatch.setattr("os.lseek", lambda *_: 0)


def record(text: str, ago_s: float = 0.0) -> bytes:
    stamp = int((time.clock_gettime(time.CLOCK_MONOTONIC) - ago_s) * 1e6)
    return f"6,339,{stamp},-;{text}\n SUBSYSTEM=x\n".encode()


@pytest.fixture
def device(tmp_path: Path, seeks: None) -> Iterator[tuple[KernelLog, int]]:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    log = KernelLog(str(path))
    os.close(reading)
    yield log, writing
    log.end()
    os.close(writing)


def test_a_message_of_the_table_is_kept_with_its_time_and_others_are_not(device: tuple[KernelLog, int]) -> None:
    log, writing = device
    os.write(writing, record(KILL))
    log.read()
    os.write(writing, record("usb 1-1: new device"))
    log.read()
    (message,) = log.messages
    assert (message.kind, message.text) == ("oom-kill", KILL)
    assert abs(message.time - time.time()) < 60


def test_the_process_that_was_killed_is_known_once(device: tuple[KernelLog, int]) -> None:
    log, writing = device
    for text in ("oom-kill:constraint=CONSTRAINT_MEMCG,task=python3,pid=4121,uid=0", KILL):
        os.write(writing, record(text))
        log.read()
    knows = cgroups.sees_all_pids()
    assert log.has_killed_for_memory(4121) == knows
    assert not log.has_killed_for_memory(1)
    assert len(log.messages) == (1 if knows else 2)
