"""Ends of processes, and the locks that show who lives."""

import fcntl
import itertools
import os
import time
from pathlib import Path

import pytest

from pylaunch.agent.shared import processes, run_processes
from pylaunch.base.layout import RunDirectory

PROCESS = processes.Process(1 << 30, 1, 0, "R", "sleep 60")
"""No kernel has a process id as large."""


def test_a_pause_after_looking_makes_no_survivor_of_a_process_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    found = iter([([PROCESS], 0.0), ([PROCESS], 2 * processes.SURVIVES_S), ([], 0.0)])

    def find() -> list[processes.Process]:
        nonlocal now
        left, paused_s = next(found)
        now += paused_s
        return left

    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert processes.end_all(find, 0.0, sleep=lambda _: None) == []


def test_a_process_that_is_there_long_after_sigkill_is_a_survivor(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    assert processes.end_all(lambda: [PROCESS], 0.0, sleep=lambda _: None) == [PROCESS]


def test_two_that_look_at_the_same_moment_do_not_take_each_other_for_a_supervisor(tmp_path: Path) -> None:
    directory = RunDirectory("r1", str(tmp_path))
    other = run_processes.lock(directory, fcntl.LOCK_SH)
    assert other is not None
    assert not run_processes.is_live(directory)
    os.close(other)
    supervisor = run_processes.lock(directory)
    assert supervisor is not None
    assert run_processes.is_live(directory)
    os.close(supervisor)
