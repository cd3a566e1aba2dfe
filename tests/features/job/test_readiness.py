from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from pylaunch.features.job import controller
from pylaunch.features.job.job_file import ReadyTest
from pylaunch.runs.events import LinesWritten


@pytest.mark.parametrize(("wanted", "is_seen"), [("(a+)+$", False), ("aaa!", True)])
def test_the_output_of_a_rank_is_compared_with_a_plain_text(wanted: str, is_seen: bool) -> None:
    """A regular expression that backtracks would occupy the controller for hours with this line."""
    heard: SimpleQueue[Any] = SimpleQueue()
    part = SimpleNamespace(name="a", role=SimpleNamespace(ready=ReadyTest("output", wanted)))
    planned: Any = SimpleNamespace(part=part, observers=())
    run = controller._PartRun(planned, lambda *_: None, heard)
    run._emit(LinesWritten("gpu01", "0.out", f"up\n{'a' * 40}!\n", 1.0))
    assert heard.empty() is not is_seen
