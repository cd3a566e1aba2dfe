"""Cells of a run in `ps` and `status`."""

from __future__ import annotations

from pylaunch.terminal.listing import MOST_WORDS, job_words


def test_a_job_is_shown_as_it_is_typed() -> None:
    assert job_words(("-m", "package.train", "--name", "a b")) == "-m package.train --name 'a b'"
    assert job_words(("train.py",)) == "train.py"


def test_a_command_takes_one_line_of_a_listing() -> None:
    shown = job_words(("python", "-c", "import torch\ntrain()", "x" * 100_000))
    assert shown.startswith("python -c 'import torch train()' xxx")
    assert (len(shown), shown[-1]) == (MOST_WORDS + 1, "…")
