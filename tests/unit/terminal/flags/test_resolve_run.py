"""The run that a command line names, and what is proposed where it names none."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.cli import main
from pylaunch.cli.commands.run import rerun
from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec, RolePart
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.run import RunRecord
from pylaunch.runs.existing.discover import Discovery
from pylaunch.runs.start import PlannedRun
from pylaunch.store import runs
from pylaunch.terminal.flags import resolve_run
from pylaunch.terminal.invocation import Invocation


def test_rerun_proposes_no_run_of_a_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = {"aaaaaaaa": ("train.py",), "bbbbbbbb": ("-m", "pylaunch.runtime.communication_test")}
    for number, (run, command) in enumerate(commands.items()):
        job = JobSpec(command, Framework.COMMAND, "/tmp")
        runs.begin(plan_run(Cluster((Host("n1", "10.0.0.1"),)), job, run), "0123", float(number))
        runs.Recorder(run, pytest.fail).finish(Outcome(Status.DONE, "every rank exited with code 0", 9.0, (), {}, ()))
    for verb, proposed in (("rerun", "aaaaaaaa"), ("logs", "bbbbbbbb")):
        monkeypatch.setattr(resolve_run, "current", lambda verb=verb: Invocation(verb))
        with pytest.raises(UsageError) as refused:
            resolve_run.find(None, None)
        assert refused.value.hint is not None
        assert refused.value.hint.startswith(f"pylaunch {verb} {proposed}; ")


def test_a_run_of_a_job_that_is_started_again_is_a_run_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobSpec(("true",), Framework.COMMAND, "/", part=RolePart("68cfe4b1", "rl", "server", "server.0"))
    runs.begin(plan_run(Cluster((Host("n1", "10.0.0.1"),)), job, "dddddddd"), "0123", 1.0)
    planned: list[PlannedRun] = []
    monkeypatch.setattr(rerun, "run_planned", lambda each, *_: planned.insert(0, each))
    main.run(["rerun", "dddddddd"])
    assert [each.plan.job.part for each in planned] == [None]


@pytest.mark.parametrize("asks", [resolve_run.find, lambda run, _: resolve_run.find_each(run, None, None).records[0]])
def test_hosts_of_the_inventory_here_are_asked_for_a_run_that_is_not_recorded(
    asks: Callable[[str, None], RunRecord],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster((Host("n1", "10.0.0.1"),))
    plan = plan_run(cluster, JobSpec(("a",), Framework.COMMAND, "/"), "eeeeeeee")
    found = Discovery((RunRecord(plan, "0123", 1.0, (), None),), frozenset({"eeeeeeee"}), {}, ())
    monkeypatch.setattr(resolve_run, "load_cluster", lambda _: cluster)
    monkeypatch.setattr(resolve_run, "discover_runs", lambda _: found)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no run eee is recorded here"):
        asks("eee", None)
    (tmp_path / "cluster.ini").touch()
    with pytest.raises(UsageError, match="no run train is recorded here"):
        asks("train", None)
    assert capsys.readouterr().err == ""
    assert asks("eee", None).plan.run == "eeeeeeee"
    assert "note: eee is not recorded here: the hosts of " in capsys.readouterr().err


def test_a_run_whose_inventory_cannot_be_looked_at_has_the_addresses_of_its_start() -> None:
    cluster = Cluster((Host("n1", "10.0.0.1"),), sources=("/" + "x" * 300,))
    record = RunRecord(plan_run(cluster, JobSpec(("a",), Framework.COMMAND, "/"), "cccccccc"), "0123", 1.0, (), None)
    assert resolve_run.reached_now(record, None) == record


@pytest.mark.parametrize(
    ("written", "mode", "address"), [(2, 0o644, "10.0.0.9"), (1, 0o644, "10.0.0.1"), (2, 0o755, "10.0.0.1")]
)
def test_an_inventory_that_was_written_since_the_start_and_is_no_program_says_where_hosts_are(
    written: int, mode: int, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "cluster.ini"
    source.touch(mode)
    os.utime(source, (written, written))
    before, now = (Cluster((Host("n1", each),), sources=(str(source),)) for each in ("10.0.0.1", "10.0.0.9"))
    monkeypatch.setattr(resolve_run, "load_cluster", lambda _: now)
    record = RunRecord(plan_run(before, JobSpec(("a",), Framework.COMMAND, "/"), "dddddddd"), "0123", 1.0, (), None)
    assert resolve_run.reached_now(record, None).plan.cluster["n1"].address == address
