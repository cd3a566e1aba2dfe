"""Cells of a run in `ps` and `status`."""

from __future__ import annotations

from pylaunch.terminal.listing import job_words
from pylaunch.workflows import doctor_trial


def test_a_job_that_a_verb_starts_is_shown_as_the_verb() -> None:
    assert job_words(doctor_trial.COMMAND) == "pylaunch doctor"
    assert job_words(("-m", "package.train", "--name", "a b")) == "-m package.train --name 'a b'"
    assert job_words(("train.py",)) == "train.py"
