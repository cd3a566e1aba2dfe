"""`rerun` has the job of the record, and the options of its own command line."""

import pytest

from pylaunch.cli import main
from pylaunch.cli.commands.run import rerun
from pylaunch.cli.running import Presentation
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.render import PlannedRun
from pylaunch.runs.start import StartOptions
from pylaunch.store import runs


def test_rerun_has_the_checks_of_the_job_and_options_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobSpec(("true",), Framework.COMMAND, "/", skipped_checks=("storage",))
    runs.begin(plan_run(Cluster((Host("n1", "10.0.0.1"),)), job, "aaaaaaaa"), "0123", 1.0)
    started: list[tuple[StartOptions, Presentation]] = []

    def run_planned(planned: PlannedRun, options: StartOptions, shown: Presentation) -> int:
        assert planned.plan.job == job
        started.append((options, shown))
        return 0

    monkeypatch.setattr(rerun, "run_planned", run_planned)
    assert main.run(["rerun", "aaaaaaaa", "--queue", "--notify", "https://hooks.example.com/token"]) == 0
    ((options, shown),) = started
    assert options.checks
    assert not {check.id for check in options.checks if check.id.startswith("storage")}
    assert options.waits
    assert (len(shown.observers), shown.detach) == (1, False)
