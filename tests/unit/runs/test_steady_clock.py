"""The time of a process does not follow a clock that is set."""

from __future__ import annotations

import time

import pytest

from pylaunch.runs import steady_clock


def test_a_clock_that_is_set_changes_no_time_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    before = steady_clock.now()
    assert abs(before - time.time()) < 60.0
    real = time.time
    with steady_clock.kept():
        monkeypatch.setattr(time, "time", lambda: real() + 7200.0)
        steady_clock.begin()
        assert before <= steady_clock.now() < before + 60.0


def test_a_process_that_follows_no_run_takes_the_clock_as_it_is_set_now(monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = steady_clock.now(), time.time
    try:
        with monkeypatch.context() as set_clock:
            set_clock.setattr(time, "time", lambda: real() + 7200.0)
            with steady_clock.kept(), steady_clock.kept():
                assert before + 7140.0 < steady_clock.now() < before + 7260.0
    finally:
        steady_clock.begin()
