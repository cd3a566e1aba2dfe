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


@pytest.mark.parametrize(
    ("signal", "lines", "expected"),
    [
        (6, ("epoch 9/9", "terminate called without an active exception"), "a thread was still at work as it ended"),
        (6, ("Assertion `x' failed.",), None),
        (9, ("terminate called without an active exception",), None),
    ],
)
def test_the_description_of_an_abort_while_python_exits_has_its_cause(
    signal: int, lines: tuple[str, ...], expected: str | None
) -> None:
    how = described(RankEnd(0, "n1", None, signal, 1.0, stopped=False, last_lines=lines))
    assert how.partition(": ")[2].startswith(expected) if expected else ": " not in how


@pytest.mark.parametrize(
    ("lines", "expected", "kind"),
    [
        (("    raise KeyboardInterrupt", "KeyboardInterrupt"),
         "ended with KeyboardInterrupt after step 3: the program raised it", "rank-failed"),
        (("    sleep(60)", "KeyboardInterrupt"),
         "ended with KeyboardInterrupt after step 3: SIGINT (Ctrl-C, kill -INT), or raised by the program",
         "rank-failed"),
        (("[rank3]: Traceback (most recent call last):", '[rank3]:   File "train.py", line 3, in <module>',
          "[rank3]:     if bad: raise KeyboardInterrupt", "[rank3]:             ^^^^^^^", "[rank3]: KeyboardInterrupt"),
         "ended with KeyboardInterrupt after step 3: the program raised it", "rank-failed"),
        (('  File "train.py", line 3, in raise_it', "    raise KeyboardInterrupt from None",
          '  File "train.py", line 9, in <module>', "    sleep(60)", "KeyboardInterrupt"),
         "ended with KeyboardInterrupt after step 3: SIGINT (Ctrl-C, kill -INT), or raised by the program",
         "rank-failed"),
        (("step 3",), "was killed by SIGINT after step 3", "rank-killed"),
    ],
)  # fmt: skip
def test_a_keyboard_interrupt_is_no_kill_from_outside_unless_that_is_known(
    lines: tuple[str, ...], expected: str, kind: str
) -> None:
    end = RankEnd(0, "n1", None, 2, 1.0, stopped=False, last_lines=lines, step=3)
    assert (described(end), kind_of(end)) == (expected, kind)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("bdb.BdbQuit", "bdb.BdbQuit; a debugger (breakpoint(), pdb) found no terminal to read from"),
        (
            "EOFError: EOF when reading a line",
            "EOFError: EOF when reading a line; input() found no terminal to read from",
        ),
    ],
)
def test_a_rank_that_reads_from_a_terminal_has_none_and_is_no_victim(error: str, expected: str) -> None:
    end = RankEnd(0, "n1", 1, None, 1.0, stopped=False, error=error)
    assert described(end) == f"exited with code 1: {expected}"
    assert not sounds_like_a_victim(end)
