"""Times of failures as nodes report them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pylaunch import protocol
from pylaunch.runs.follow.node_ends import time_of

END = protocol.RankEnd(1, "", 1, None, 100.0, stopped=False, last_lines=("ValueError: x",), error="ValueError: x")


@pytest.mark.parametrize(
    ("message", "time"),
    [
        (replace(END, raised_at=97.5), 97.5),
        (replace(END, raised_at=97.5, symptom="lost the connection to another rank"), 100.0),
        (replace(END, raised_at=0.0), 100.0),
        (replace(END, raised_at=1.0), 100.0),
        (replace(END, raised_at=101.0), 100.0),
        (protocol.RankEnd(None, "", 1, None, 100.0, stopped=False, raised_at=97.5), 100.0),
    ],
    ids=["own exception", "victim", "no exception", "long before", "after the end", "launcher"],
)
def test_a_rank_fails_when_it_writes_its_own_exception(message: protocol.RankEnd, time: float) -> None:
    assert time_of(message) == time
