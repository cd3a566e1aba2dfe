"""Entries of torch's flight recorder become rows of an answer."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pylaunch.agent.in_rank.answers import Places, rows

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
