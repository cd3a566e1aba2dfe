"""Cells of a run in `ps` and `status`, and the events of `--json`."""

import contextlib
import os
from collections.abc import Iterator
from typing import TextIO

import pytest

from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.run import RunRecord
from pylaunch.runs.events import Attached, RunBegun, notice
from pylaunch.terminal.views.run_data import LONGEST_COMMAND, EventStream, doubt, job_words

PLAN = plan_run(Cluster((Host("n1", "10.0.0.1"),)), JobSpec(("true",), Framework.COMMAND, "/"), "7f3a9c01")


def test_a_command_takes_one_line_of_a_listing() -> None:
    shown = job_words(("python", "-c", "import torch\ntrain()", "x" * 100_000))
    assert shown.startswith("python -c 'import torch train()' xxx")
    assert (len(shown), shown[-1]) == (LONGEST_COMMAND + 1, "…")


def test_a_run_of_which_something_is_left_is_not_listed_as_one_that_is_clean() -> None:
    left = Outcome(Status.FAILED, "why", 1.0, (), {"n1": ("pid 4121 (sleep 600)",)})
    assert doubt(left) == ", not clean"
    assert doubt(Outcome(Status.FAILED, "why", 1.0, (), {}, unproven=("n2",))) == ", not proven clean"
    assert doubt(Outcome(Status.FAILED, "why", 1.0, (), {})) == ""


@pytest.fixture
def without_reader() -> Iterator[TextIO]:
    """A stdout whose reader is gone: `pylaunch start --json | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "w") as stream:
        yield stream


def test_a_run_continues_when_nobody_reads_its_events_any_more(
    without_reader: TextIO, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = EventStream(without_reader)
    stream.on_event(RunBegun(PLAN))
    stream.on_event(notice("connecting to n1"))
    stream.on_event(notice("installing the agent on n1"))
    assert capsys.readouterr().err == (
        "events cannot be printed here any more (Broken pipe); the run continues: pylaunch attach 7f3a9c01 --json\n"
    )


def test_following_a_run_of_another_controller_ends_with_the_reader(without_reader: TextIO) -> None:
    stream = EventStream(without_reader)
    stream.on_event(Attached(RunRecord(PLAN, "1", 0.0, (), None), leads=False))
    with pytest.raises(BrokenPipeError):
        stream.on_event(notice("connecting to n1"))
