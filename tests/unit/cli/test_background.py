"""A start in the background: its half at the terminal shows the run that the other half began last."""

import os
from pathlib import Path

import pytest

from pylaunch.cli import running
from pylaunch.errors import ExitCode
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.store import runs
from pylaunch.terminal.options import Invocation
from pylaunch.terminal.views.live import RunView
from pylaunch.transport.background import STARTED, Background, Foreground

FIRST, SECOND = "aaaaaaaa", "bbbbbbbb"


@pytest.mark.parametrize("has_started", [True, False])
def test_the_run_after_a_lost_turn_is_shown(
    has_started: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    invocation = Invocation()
    monkeypatch.setattr(running, "current", lambda: invocation)
    monkeypatch.setattr(Background, "exit_code", lambda _: int(ExitCode.CLUSTER_NOT_READY))
    for run in (FIRST, SECOND):
        plan = plan_run(Cluster((Host("n1", "10.0.0.1"),)), JobSpec(("true",), Framework.COMMAND, "/"), run)
        runs.begin(plan, "0123", 1.0)
        runs.Recorder(run, print).finish(Outcome(Status.REFUSED, f"the error of {run}", 2.0, (), {}))
    (log := tmp_path / "log").touch()
    view = RunView()
    view.run = FIRST
    reading, writing = os.pipe()
    child = Foreground(writing)
    child.tell(SECOND)
    if has_started:
        child.tell(STARTED)
    else:
        os.close(writing)
    code = running._at_terminal(view, Background(0, reading), log)
    assert view.run == SECOND, "the document of --json has this one"
    if has_started:
        assert code == ExitCode.DONE
        assert f"run {SECOND} continues in the background" in capsys.readouterr().err
    else:
        assert code == ExitCode.CLUSTER_NOT_READY
        assert invocation.printed_error is not None
        assert invocation.printed_error.message == f"the error of {SECOND}"
