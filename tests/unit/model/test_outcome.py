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


@pytest.mark.parametrize(
    ("signal", "lines", "told"),
    [
        (6, ("epoch 9/9", "terminate called without an active exception"), "a thread was still at work as it ended"),
        (6, ("Assertion `x' failed.",), None),
        (9, ("terminate called without an active exception",), None),
    ],
)
def test_an_abort_while_python_went_away_is_told_with_its_cause(
    signal: int, lines: tuple[str, ...], told: str | None
) -> None:
    how = RankEnd(0, "n1", None, signal, 1.0, stopped=False, last_lines=lines).how
    assert how.partition(": ")[2].startswith(told) if told else ": " not in how
