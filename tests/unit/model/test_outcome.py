import pytest

from pylaunch.model.outcome import RankEnd


@pytest.mark.parametrize(
    ("exit_code", "signal", "error", "step", "told"),
    [
        (1, None, "", None, "exited with code 1"),
        (0, None, "", 90, "exited with code 0"),
        (None, 9, "", 90, "was killed by SIGKILL after step 90"),
        (1, None, "ValueError: x (a.py:3)", None, "exited with code 1: ValueError: x (a.py:3)"),
        (1, None, "ValueError: x (a.py:3)", 0, "exited with code 1 after step 0: ValueError: x (a.py:3)"),
    ],
)
def test_an_end_is_told_with_how_far_the_rank_came_and_what_it_raised(
    exit_code: int | None, signal: int | None, error: str, step: int | None, told: str
) -> None:
    assert RankEnd(0, "n1", exit_code, signal, 1.0, stopped=False, error=error, step=step).how == told
