"""Cells of a run in `ps` and `status`."""

from __future__ import annotations

from pylaunch.terminal.listing import job_words


def test_a_job_is_shown_as_it_is_typed() -> None:
    assert job_words(("-m", "package.train", "--name", "a b")) == "-m package.train --name 'a b'"
    assert job_words(("train.py",)) == "train.py"
