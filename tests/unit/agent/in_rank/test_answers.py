"""Entries of torch's flight recorder become rows of an answer."""

import threading
from typing import Any, cast

import pytest

from pylaunch.agent.in_rank.answers import LONGEST_TEXT, Places, handled, rows

OVER = 6
"""Index of "the collective is over" in a row."""


def entry(name: str, **changes: Any) -> dict[str, Any]:
    return {"process_group": ["0", ""], "collective_seq_id": 4, "profiling_name": name, **changes}


@pytest.mark.parametrize(
    ("found", "is_over"),
    [
        (entry("gloo:all_reduce", retired=True, state="scheduled"), True),
        (entry("gloo:all_reduce", retired=False, state="scheduled"), False),
        (entry("nccl:all_reduce", retired=True, state="completed"), True),
        (entry("nccl:all_reduce", retired=True, state="started"), False),
    ],
    ids=["gloo never completes", "gloo waits", "nccl completed", "nccl timed out"],
)
def test_a_collective_of_nccl_that_timed_out_is_not_over(found: dict[str, Any], is_over: bool) -> None:
    (found_row,) = rows([found], Places())
    row = cast("tuple[object, ...]", found_row)
    assert (row[2], row[OVER]) == ("all_reduce", is_over)


class OddError(Exception):
    def __str__(self) -> str:
        raise AssertionError("no code of the script runs")


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("bad batch"), "ValueError: bad batch"),
        (ValueError("x" * 500), "ValueError: " + "x" * 267),
        (OddError(7), "OddError"),
        (None, ""),
    ],
)
def test_the_exception_for_which_a_finally_waits_is_known(error: Exception | None, shown: str) -> None:
    found = []
    try:
        try:
            if error is not None:
                raise error
        finally:
            found.append(handled(threading.get_ident()))
    except (ValueError, OddError):
        pass
    assert found[0].partition(" (")[0] == shown
    assert ("(test_answers.py:" in found[0][:LONGEST_TEXT]) == (error is not None)


def test_of_a_long_path_its_end_is_kept() -> None:
    places = Places()
    assert places.numbers([("f", f"{'/runfiles' * 50}/train.py", 4)]) == [0]
    assert (len(places.rows[0][1]), places.rows[0][1][-9:]) == (LONGEST_TEXT, "/train.py")
