"""Cells of a run in `ps` and `status`."""

from pylaunch.model.outcome import Outcome, Status
from pylaunch.terminal.views.run_data import LONGEST_COMMAND, doubt, job_words


def test_a_command_takes_one_line_of_a_listing() -> None:
    shown = job_words(("python", "-c", "import torch\ntrain()", "x" * 100_000))
    assert shown.startswith("python -c 'import torch train()' xxx")
    assert (len(shown), shown[-1]) == (LONGEST_COMMAND + 1, "…")


def test_a_run_of_which_something_is_left_is_not_listed_as_one_that_is_clean() -> None:
    left = Outcome(Status.FAILED, "why", 1.0, (), {"n1": ("pid 4121 (sleep 600)",)})
    assert doubt(left) == ", not clean"
    assert doubt(Outcome(Status.FAILED, "why", 1.0, (), {}, unproven=("n2",))) == ", not proven clean"
    assert doubt(Outcome(Status.FAILED, "why", 1.0, (), {})) == ""
