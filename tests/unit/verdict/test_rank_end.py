import pytest

from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.rank_end import described, kind_of, sounds_like_a_victim


@pytest.mark.parametrize(
    ("exit_code", "signal", "error", "step", "expected"),
    [
        (1, None, "", None, "exited with code 1"),
        (0, None, "", 90, "exited with code 0"),
        (None, 9, "", 90, "was killed by SIGKILL after step 90"),
        (1, None, "ValueError: x (a.py:3)", None, "exited with code 1: ValueError: x (a.py:3)"),
        (1, None, "ValueError: x (a.py:3)", 0, "exited with code 1 after step 0: ValueError: x (a.py:3)"),
    ],
)
def test_the_description_of_an_end_has_the_last_step_and_the_exception(
    exit_code: int | None, signal: int | None, error: str, step: int | None, expected: str
) -> None:
    end = RankEnd(0, "n1", exit_code, signal, 1.0, stopped=False, error=error, step=step)
    assert described(end) == expected


def test_a_keyboard_interrupt_is_no_kill_from_outside() -> None:
    """Python ends itself with SIGINT after a KeyboardInterrupt that nobody catches, whoever raised it."""
    end = RankEnd(0, "n1", None, 2, 1.0, stopped=False, last_lines=("KeyboardInterrupt",), step=3)
    expected = "ended with SIGINT (Ctrl-C, kill -INT) or KeyboardInterrupt after step 3"
    assert (described(end), kind_of(end)) == (expected, "rank-failed")


@pytest.mark.parametrize("error", ["bdb.BdbQuit", "EOFError: EOF when reading a line"])
def test_a_rank_that_reads_from_a_terminal_is_no_victim(error: str) -> None:
    assert not sounds_like_a_victim(RankEnd(0, "n1", 1, None, 1.0, stopped=False, error=error))
    assert sounds_like_a_victim(RankEnd(0, "n1", 1, None, 1.0, stopped=False, error="RuntimeError: EOF in read"))
