"""The run of `doctor` in lists of runs."""

from __future__ import annotations

from pylaunch.features.doctor import trial
from pylaunch.terminal.listing import job_words


def test_the_run_of_doctor_is_shown_as_the_verb() -> None:
    assert job_words(trial.COMMAND) == "pylaunch doctor"
