"""`pylaunch history`: what rows say about runs and nodes, and what the database keeps."""

import csv
import io
import sqlite3

import pytest

from pylaunch.base.dataclass import replace
from pylaunch.errors import UsageError
from pylaunch.features.history import database
from pylaunch.features.history.command import _csv
from pylaunch.features.history.summary import AttemptRow, by_node, by_run, of_recent_runs, row_of
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.cause import Certainty, FailureCause, Named
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.store import runs

BEGAN = 1_780_000_000.0
CAUSE = FailureCause("out-of-memory", "killed", Certainty.CERTAIN, Named("gpu02", 1))
FAILED = Outcome(
    Status.FAILED, "rank 1 on gpu02\x1b[2J was killed", BEGAN + 60, (), {}, named=CAUSE.named, causes=(CAUSE,)
)
PLAN = plan_run(
    Cluster((Host("gpu01", "10.0.0.1"), Host("gpu02", "10.0.0.2"))),
    JobSpec(("train.py",), Framework.COMMAND, "/srv", ranks_per_node=1),
    "7f3a9c01",
)
RELEASED = Event(BEGAN + 10, EventKind.RELEASED, seconds={"connect": 2.0, "release": 0.5, "skew": 9.0})


def row(attempt: str, created: float, ran_s: float, *, host: str = "", kind: str = "") -> AttemptRow:
    status = "failed" if kind else "done"
    return AttemptRow(attempt, created, created + ran_s + 10, status, 2, 2, 2.5, ran_s, kind, host, "reason")


ROWS = [
    row("aa.1", BEGAN + 100, 190),
    row("aa", BEGAN, 60, host="gpu02", kind="out-of-memory"),
    row("bb", BEGAN + 500, 0, host="gpu02", kind="storage"),
    row("cc", BEGAN + 600, 5, host="gpu01", kind="storage"),
]


def test_a_record_becomes_a_row_with_its_first_cause() -> None:
    made = row_of(RunRecord(PLAN, "agent", BEGAN, (RELEASED,), FAILED))
    assert made is not None
    assert (made.start_s, made.ran_s, made.kind) == (2.5, 50.0, "out-of-memory")
    assert made.reason == r"rank 1 on gpu02\x1b[2J was killed"
    assert row_of(RunRecord(PLAN, "agent", BEGAN, (), None)) is None
    stopped = row_of(RunRecord(PLAN, "agent", BEGAN, (), replace(FAILED, status=Status.STOPPED)))
    assert stopped is not None
    assert (stopped.kind, stopped.host, stopped.ran_s) == ("", "", None)


def test_the_error_of_a_rank_belongs_to_no_node_and_what_names_a_whole_node_does() -> None:
    lost = FailureCause("node-lost", "no answer", Certainty.LIKELY, Named("gpu02", None))
    raised = replace(CAUSE, kind="rank-failed", named=Named("gpu01", 0))
    rows = [
        row_of(RunRecord(PLAN, "agent", BEGAN, (), replace(FAILED, named=each.named, causes=(each,))))
        for each in (lost, raised, CAUSE)
    ]
    assert [(each.host, each.address, each.kind) for each in rows if each is not None] == [
        ("gpu02", "10.0.0.2", "node-lost"), ("", "", "rank-failed"), ("", "", "out-of-memory")
    ]  # fmt: skip


def test_a_run_that_began_before_the_days_that_are_shown_has_all_of_its_attempts() -> None:
    (run, *others) = by_run(of_recent_runs(ROWS[:2], BEGAN + 50))
    assert (run.run, run.attempts, run.created, others) == ("aa", 2, BEGAN, [])
    assert of_recent_runs(ROWS[:2], BEGAN + 200) == []


def test_attempts_of_a_run_are_one_row_with_its_lost_time() -> None:
    *_, run = by_run(ROWS)
    assert (run.run, run.attempts, run.status, run.seconds, run.ran_s, run.lost_s) == ("aa", 2, "done", 300, 250, 50)
    assert run.goodput == pytest.approx(250 / 300)
    assert [each.run for each in by_run(ROWS)] == ["cc", "bb", "aa"]


def test_nodes_that_failures_name_are_counted_by_kind() -> None:
    nodes = [(each.host, each.failures, dict(each.kinds)) for each in by_node(ROWS)]
    assert nodes == [("gpu02", 2, {"out-of-memory": 1, "storage": 1}), ("gpu01", 1, {"storage": 1})]


def test_the_database_keeps_attempts_whose_records_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[str] = []
    for number, run in enumerate(("aaaa0000", "bbbb0000", "cccc0000")):
        runs.begin(replace(PLAN, run=run), "agent", BEGAN + number)
        runs.Recorder(run, complaints.append).finish(FAILED)
    runs.begin(replace(PLAN, run="dddd0000"), "agent", BEGAN)  # It has not ended.
    database.add(database.missing(), complaints.append)
    assert database.missing() == ["dddd0000"]
    runs.prune(keep=0)
    database.add(["aaaa0000"], complaints.append)
    assert len(complaints) == 1
    assert [each.attempt for each in database.rows(BEGAN + 1)] == ["cccc0000", "bbbb0000"]
    monkeypatch.setattr(database, "MOST", 1)
    database.add([], complaints.append)
    assert [each.attempt for each in database.rows(0)] == ["cccc0000"]


def test_a_damaged_database_is_an_error_with_the_way_out() -> None:
    database.file().parent.mkdir(parents=True)
    database.file().write_text("no database" * 100)
    with pytest.raises(UsageError, match="the history cannot be used") as error:
        database.rows(0)
    assert str(error.value.hint).startswith("rm ")


def test_a_full_disk_is_no_reason_to_remove_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite3, "connect", is_full)
    with pytest.raises(UsageError, match="disk is full") as error:
        database.rows(0)
    assert error.value.hint == f"df -h {database.file().parent}"


def test_no_spreadsheet_calculates_a_text() -> None:
    (cells,) = csv.DictReader(io.StringIO(_csv([replace(ROWS[0], reason='=HYPERLINK("x"),\n')])))
    assert cells["reason"] == '\'=HYPERLINK("x"),\n'
    assert cells["ran_s"] == "190"
