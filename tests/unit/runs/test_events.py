"""The clock of events."""

import time

import pytest

from pylaunch.runs.events import begin_clock, clock_kept, clock_now


def test_a_clock_that_is_set_changes_no_time_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = clock_now(), time.time
    assert abs(before - time.time()) < 60.0
    with clock_kept():
        monkeypatch.setattr(time, "time", lambda: real() + 7200.0)
        begin_clock()
        assert before <= clock_now() < before + 60.0


def test_a_process_that_follows_no_run_takes_the_clock_as_it_is_set_now(monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = clock_now(), time.time
    try:
        with monkeypatch.context() as set_clock:
            set_clock.setattr(time, "time", lambda: real() + 7200.0)
            with clock_kept(), clock_kept():
                assert before + 7140.0 < clock_now() < before + 7260.0
    finally:
        begin_clock()
