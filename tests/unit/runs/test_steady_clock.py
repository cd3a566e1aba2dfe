"""The time of a process does not follow a clock that is set."""

from __future__ import annotations

import time

import pytest

from pylaunch.runs import steady_clock


def test_a_clock_that_is_set_changes_no_time_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    before = steady_clock.now()
    assert abs(before - time.time()) < 60.0
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 7200.0)
    assert before <= steady_clock.now() < before + 60.0
