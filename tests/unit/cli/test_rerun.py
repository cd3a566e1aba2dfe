"""What a start records for `rerun`, and what `rerun` makes of it."""

from pathlib import Path
from typing import Any

import pytest

from pylaunch.cli import main
from pylaunch.cli.commands.run import rerun
from pylaunch.cli.commands.run.start import OPTIONS
from pylaunch.cli.running import Presentation
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.runs.planned import PlannedRun
from pylaunch.runs.start import StartOptions
from pylaunch.store import runs
from pylaunch.terminal.flags.start import to_repeat

ASKED = {"queue": True, "stale": "kill"}
RUN = "aaaaaaaa"


def again(
    monkeypatch: pytest.MonkeyPatch, request: dict[str, Any] | None, *skipped: str
) -> tuple[StartOptions, Presentation]:
    """Run `rerun` of a run whose record has `request`; return the options of its start."""
    plan = plan_run(
        Cluster((Host("n1", "10.0.0.1"),)), JobSpec(("true",), Framework.COMMAND, "/", skipped_checks=skipped), RUN
    )
    runs.begin(plan, "0123", 1.0)
    if request is not None:
        runs.keep_request(RUN, request)
    started: list[tuple[StartOptions, Presentation]] = []

    def run_planned(_: PlannedRun, options: StartOptions, shown: Presentation) -> int:
        started.append((options, shown))
        return 0

    monkeypatch.setattr(rerun, "run_planned", run_planned)
    assert main.run(["rerun", RUN]) == 0
    return started[0]


def test_rerun_has_the_options_of_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOK", "https://hooks.example.com/other")
    asked = {
        **ASKED, "save_logs": Path("logs"), "notify": ("https://hooks.example.com/token", "env:HOOK"),
    }  # fmt: skip
    request = to_repeat(asked, OPTIONS)
    assert "token" not in str(request)
    options, shown = again(monkeypatch, request, "storage")
    assert not {check.id for check in options.checks if check.id.startswith("storage")}
    assert options.checks
    assert options.ends_leftovers
    assert options.turn is not None
    assert shown.collect_to == tmp_path / "logs"
    assert len(shown.observers) == 1
    assert shown.request == runs.request_of(RUN)
    assert "note: a value of --notify is not recorded" in capsys.readouterr().err


def test_a_run_without_recorded_options_starts_with_the_usual_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    options, shown = again(monkeypatch, None)
    assert options.checks
    assert (options.turn, options.ends_leftovers, shown.collect_to, shown.observers) == (None, False, None, ())
