"""The explanation of a run says nothing that its record contradicts, and shows the hang that it had."""

from __future__ import annotations

import pytest

from pylaunch.cli.views.explaining import show
from pylaunch.explain.logs.judgement import LogVerdict
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.workflows.explain_logs import LogExplanation
from tests.unit.cli.views.test_live import PLAN

HANG = Event(2.0, EventKind.HANG, text="hang: ranks 0,2 wait in all_reduce #6", lines=("rank 1 on n2: in load",))


def shown(capsys: pytest.CaptureFixture[str], status: Status, *events: Event) -> list[str]:
    outcome = Outcome(status, "the reason", 3.0, (), {}, evidence=("n1: no route",))
    record = RunRecord(PLAN, "v", 1.0, events, outcome)
    show(LogExplanation(LogVerdict((), (), failed=False), 1, 0, 0, (), record), verbose=False)
    return capsys.readouterr().out.splitlines()


def test_a_failed_run_without_a_known_text_is_not_called_a_run_without_a_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shown(capsys, Status.FAILED)[-1] == "no text of a known cause found in 1 log (0 lines, 0.0 MB)"
    refused = shown(capsys, Status.REFUSED)
    assert refused[1] == "  n1: no route"
    assert refused[-1].startswith("no text of a known cause found")
    assert shown(capsys, Status.DONE)[-1] == "no failure found in 1 log (0 lines, 0.0 MB)"


def test_a_run_that_was_stopped_in_a_hang_shows_the_hang(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, Status.STOPPED, HANG)
    assert lines[-1].startswith("no text of a known cause found")
    assert lines[1:3] == ["before it ended: hang: ranks 0,2 wait in all_reduce #6", "  rank 1 on n2: in load"]
