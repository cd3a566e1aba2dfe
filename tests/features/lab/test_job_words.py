"""Runs of `drill` in lists of runs."""

from __future__ import annotations

from pylaunch.features.lab.drill import exercise
from pylaunch.terminal.listing import job_words


def test_a_run_of_drill_is_shown_as_the_verb() -> None:
    assert job_words((*exercise.MODULE, "torch", "raises")) == "pylaunch drill"
