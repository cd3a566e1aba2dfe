"""A program of a node ends within its deadline, or is given up."""

import time

import pytest

from pylaunch.agent.shared import programs


def test_the_result_of_a_program_is_its_output_and_its_status() -> None:
    found = programs.ended(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (found.status, found.output, found.errors) == (3, "out\n", "err\n")
    assert programs.ended(["sh", "-c", "kill -9 $$"]).status == -9


@pytest.mark.parametrize(
    "script", ["exec sleep 60", "exec >&- 2>&-; exec sleep 60"], ids=["silent", "closes its output"]
)
def test_a_program_that_lives_on_is_given_up_at_its_deadline(script: str) -> None:
    """busctl can close its output and wait for a bus that does not answer."""
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer from sh within 0\.2 s"):
        programs.ended(["sh", "-c", script], deadline_s=0.2)
    assert time.monotonic() - begun < 20
