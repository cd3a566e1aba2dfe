"""The run that a command line names, and what is proposed where it names none."""

import os
from pathlib import Path

import pytest

from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec, RolePart
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.run import RunRecord
from pylaunch.runs.all_runs import Discovery
from pylaunch.store import runs
from pylaunch.terminal.flags import resolve_run
from pylaunch.terminal.options import Invocation


def recorded(run: str, at: float, command: tuple[str, ...] = ("train.py",), part: RolePart | None = None) -> None:
    job = JobSpec(command, Framework.COMMAND, "/tmp", part=part)
    runs.begin(plan_run(Cluster((Host("n1", "10.0.0.1"),)), job, run), "0123", at)
    runs.Recorder(run, pytest.fail).finish(Outcome(Status.DONE, "every rank exited with code 0", 9.0, (), {}, ()))


def nodes_know(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hosts of each inventory know this run, which is newer than those that are recorded here."""
    cluster = Cluster((Host("n1", "10.0.0.1"),))
    plan = plan_run(cluster, JobSpec(("a",), Framework.COMMAND, "/"), run)
    found = Discovery((RunRecord(plan, "0123", 5.0, (), None, is_foreign=True),), frozenset({run}), {}, ())
    monkeypatch.setattr(resolve_run, "load_cluster", lambda _: cluster)
    monkeypatch.setattr(resolve_run, "discover_runs", lambda _: found)


def test_rerun_takes_no_run_of_a_verb(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    recorded("aaaaaaaa", 1.0)
    recorded("bbbbbbbb", 2.0, ("-m", "ranks.bench_rank"))
    for verb, newest in (("rerun", "aaaaaaaa"), ("logs", "bbbbbbbb")):
        monkeypatch.setattr(resolve_run, "current", lambda verb=verb: Invocation(verb))
        assert resolve_run.find(None, None, newest=True).plan.run == newest
        assert f"the newest run: {newest}  done, started " in capsys.readouterr().err
    monkeypatch.setattr(resolve_run, "current", lambda: Invocation("rerun"))
    with pytest.raises(UsageError) as refused:
        resolve_run.find(None, None)
    assert (refused.value.hint or "").startswith("pylaunch rerun aaaaaaaa; ")
    monkeypatch.setattr(resolve_run, "current", lambda: Invocation("stop"))
    with pytest.raises(UsageError) as refused:
        resolve_run.find(None, None)
    assert not refused.value.evidence, "both are over"


def test_the_newest_of_a_job_is_all_of_its_runs_or_none() -> None:
    for number, name in enumerate(("server.0", "trainer")):
        recorded(f"0000000{number}", float(number), part=RolePart("68cfe4b1", "rl", name.partition(".")[0], name))
    named = resolve_run.find_each(None, None, newest=True)
    assert {each.plan.run for each in named} == {"00000000", "00000001"}
    with pytest.raises(UsageError, match="68cfe4b1 is a job of several roles, and this takes one run"):
        resolve_run.find(None, None, newest=True)


def test_a_run_that_only_nodes_know_may_be_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded("aaaaaaaa", 1.0)
    nodes_know("eeeeeeee", monkeypatch)
    assert resolve_run.find(None, tmp_path / "cluster.ini", newest=True).plan.run == "eeeeeeee"


def test_the_newest_run_of_an_inventory_whose_hosts_are_all_down_is_one_that_is_recorded_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def down(_: Cluster) -> Discovery:
        raise ClusterNotReadyError("no host answers")

    inventory = tmp_path / "cluster.ini"
    cluster = Cluster((Host("n1", "10.0.0.1"),), sources=(str(inventory),))
    runs.begin(plan_run(cluster, JobSpec(("a",), Framework.COMMAND, "/"), "aaaaaaaa"), "0123", 1.0)
    monkeypatch.setattr(resolve_run, "load_cluster", lambda _: cluster)
    monkeypatch.setattr(resolve_run, "discover_runs", down)
    assert resolve_run.find(None, inventory, newest=True).plan.run == "aaaaaaaa"
    assert "note: no host answers, so the newest run is one that is recorded here" in capsys.readouterr().err
    with pytest.raises(ClusterNotReadyError):
        resolve_run.find(None, inventory)


def test_hosts_of_the_inventory_here_are_asked_for_a_run_that_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes_know("eeeeeeee", monkeypatch)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no run eee is recorded here"):
        resolve_run.find("eee", None)
    (tmp_path / "cluster.ini").touch()
    with pytest.raises(UsageError, match="no run train is recorded here"):
        resolve_run.find("train", None)
    assert capsys.readouterr().err == ""
    assert resolve_run.find("eee", None).plan.run == "eeeeeeee"
    assert "note: eee is not recorded here: the hosts of " in capsys.readouterr().err


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
