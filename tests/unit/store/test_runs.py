from pathlib import Path

import pytest

from pylaunch.cli import main
from pylaunch.cli.commands.watch import status
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.runs.status import RunReport, RunStatus
from pylaunch.runs.stop import stop_run
from pylaunch.store import runs
from pylaunch.store.files import run_paths


def plan(run: str) -> RunPlan:
    host = Host("n1", "10.0.0.1", connection=Connection.LOCAL, devices=(0, 1), interface="eth1")
    return plan_run(Cluster((host,), sources=("/x/cluster.ini",)), JobSpec(("a b.py",), Framework.COMMAND, "/w"), run)


def recorded(run: str) -> runs.Recorder:
    runs.begin(plan(run), "0123456789abcdef", now=100.0)
    return runs.Recorder(run, complain=pytest.fail)


def test_a_record_is_read_as_it_was_written() -> None:
    recorder = recorded("7f3a9c01")
    event = Event(101.0, EventKind.RELEASED, "n1", seconds={"connect": 0.5})
    recorder.append(event)
    outcome = Outcome(
        Status.FAILED, "rank 1", 102.0, (RankEnd(1, "n1", None, 9, 101.5, stopped=False, last_lines=("boom",)),), {}
    )
    recorder.finish(outcome)
    record = runs.read("7f3a9c01")
    assert record.plan == plan("7f3a9c01")
    assert record.events == (event,)
    assert record.outcome == outcome
    assert record.agent == "0123456789abcdef"


def test_a_damaged_record_is_named_with_the_way_out() -> None:
    recorded("7f3a9c01")
    run_paths("7f3a9c01").plan.write_bytes(b"{")
    with pytest.raises(UsageError, match="7f3a9c01") as caught:
        runs.read("7f3a9c01")
    assert caught.value.hint is not None
    assert str(run_paths("7f3a9c01").directory) in caught.value.hint


def test_records_are_for_their_owner_alone() -> None:
    recorded("7f3a9c01")
    assert run_paths("7f3a9c01").directory.stat().st_mode & 0o077 == 0


def test_the_process_id_of_a_controller_on_another_machine_means_no_process_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lock of another machine that shares the home directory, and a number that somebody has here, too."""
    recorder = recorded("7f3a9c01")
    assert recorder.take_charge()
    run_paths("7f3a9c01").controller.write_text("1")
    report = RunReport(runs.read("7f3a9c01"), RunStatus((), None), runs.controller("7f3a9c01"))
    assert report.controller == runs.ELSEWHERE
    monkeypatch.setattr(status, "report", lambda *_: report)
    main.run(["status", "7f3a9c01"])
    assert "controller: on another machine that has this record; the run was started by " in capsys.readouterr().out
    with pytest.raises(ClusterNotReadyError, match="another machine that shares the records") as refused:
        stop_run(runs.read("7f3a9c01"), lambda event: None, now=False)
    assert refused.value.hint == "there: pylaunch stop 7f3a9c01"


def test_the_beginning_of_an_id_is_enough_when_it_is_unique() -> None:
    recorded("7f3a9c01")
    recorded("7f000000")
    assert runs.find("7f3") == "7f3a9c01"
    with pytest.raises(UsageError, match="7f begins 2 runs"):
        runs.find("7f")
    with pytest.raises(UsageError, match="no run abc"):
        runs.find("abc")


def test_pruning_forgets_old_ended_runs_and_never_a_live_one() -> None:
    for number in range(4):
        recorder = recorded(f"0000000{number}")
        if number:
            recorder.finish(Outcome(Status.DONE, "", 1.0, (), {}))
    runs.prune(keep=1)
    kept = set(runs.ids())
    assert "00000000" in kept
    assert len(kept) == 2


def test_a_run_that_was_restarted_is_its_last_attempt() -> None:
    for run in ("7f3a9c01", "7f3a9c01.1", "7f3a9c01.2", "7f3a9c01.10", "80000000"):
        recorded(run)
    assert runs.find("7f3") == "7f3a9c01.10"
    assert runs.find("7f3a9c01.0") == "7f3a9c01"
    assert runs.find("7f3a9c01.1") == "7f3a9c01.1"
    with pytest.raises(UsageError, match=r"no attempt 7f3a9c01\.3"):
        runs.find("7f3a9c01.3")


def test_a_record_that_cannot_be_written_is_reported_once_and_stands_in_the_way_of_no_stop() -> None:
    """Its file system was mounted read-only after an error of the disk."""
    recorded("7f3a9c01")
    run_paths("7f3a9c01").controller.mkdir()
    run_paths("7f3a9c01").stop_asked.symlink_to("/no/such/place")
    reported: list[str] = []
    recorder = runs.Recorder("7f3a9c01", reported.append)
    recorder.ask_to_stop()
    assert not recorder.take_charge()
    (report,) = reported
    assert report.startswith("the record of run 7f3a9c01 is incomplete: it cannot be written (")
    assert runs.controller("7f3a9c01") is None


def test_a_record_of_another_user_is_reported_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a start with sudo. Here, nobody can read it: a loop of links."""
    monkeypatch.setenv("XDG_STATE_HOME", f"{tmp_path}/my state")
    plan = run_paths("7f3a9c01").plan
    plan.parent.mkdir(parents=True)
    plan.symlink_to(plan)
    reported: list[str] = []
    assert list(runs.readable(reported.append)) == []
    assert reported[0].startswith("error: the record of run 7f3a9c01 cannot be read: ")
    assert f"rm -r '{plan.parent}'" in reported[0]
    runs.prune(keep=0)
    assert runs.ids() == ["7f3a9c01"]


def test_who_stops_one_attempt_stops_the_run() -> None:
    recorded("7f3a9c01")
    recorded("7f3a9c01.1")
    assert not runs.is_asked_to_stop("7f3a9c01.1")
    runs.Recorder("7f3a9c01.1", pytest.fail).ask_to_stop()
    assert runs.is_asked_to_stop("7f3a9c01")


def test_a_run_whose_record_cannot_be_begun_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="the record of the run cannot be written: Not a directory"):
        runs.begin(plan("7f3a9c01"), "0123456789abcdef", now=100.0)
