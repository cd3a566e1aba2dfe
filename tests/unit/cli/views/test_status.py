"""Output of `status --watch` without a terminal, and its end."""

import time

import pytest

from pylaunch.cli.views.status import QUIET_S, Spectator, View, plain_view, progress
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan, plan_run, replan
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.protocol.progress import RankSigns
from pylaunch.runs.attach import is_settled
from pylaunch.runs.events import Attached, LinesWritten, ProgressReported, clock_now
from pylaunch.store import runs
from pylaunch.terminal.views.board import Board

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
SIGNS = [RankSigns(0, 0, 7, 118.0)]


def planned(max_restarts: int = 0) -> RunPlan:
    return plan_run(CLUSTER, JobSpec(("a",), Framework.COMMAND, "/", max_restarts=max_restarts), "7f3a9c01")


def printed(board: Board, *nows: float) -> tuple[View, list[str]]:
    lines: list[str] = []
    view = plain_view(lines.append)
    for now in nows:
        view(board, now)
    return view, lines


def test_a_change_is_printed_once_it_lasts() -> None:
    board = Board(planned())
    view, lines = printed(board, 100.0)
    board.add(Event(100.2, EventKind.RANK_STARTED, "n1", 0))
    view(board, 100.5)
    board.add(Event(100.2, EventKind.RANK_STARTED, "n2", 1))
    board.add(Event(100.2, EventKind.RELEASED, "n1"))
    for now in (101.0, 101.5, 102.0, 102.5):
        view(board, now)
    assert lines == ["run 7f3a9c01 running for 1 s: 2 of 2 ranks on n[1-2]"]
    board.add(Event(103.0, EventKind.CONTACT_LOST, "n2"))
    view(board, 103.0)
    view(board, 103.5)
    assert lines[1:] == ["run 7f3a9c01 running for 3 s: 2 of 2 ranks on n[1-2], no contact with n2"]


def test_steps_alone_are_printed_once_a_minute() -> None:
    board = Board(planned())
    board.add(Event(100.0, EventKind.RANK_STARTED, "n1", 0))
    view, lines = printed(board, 100.0, 100.5)
    board.add(ProgressReported("n1", SIGNS))
    view(board, 120.0)
    assert len(lines) == 1
    view(board, 100.5 + QUIET_S)
    assert lines[1].endswith("; step 7: rank 0 on n1, 42 s ago")


def test_a_clock_that_is_set_changes_no_age_on_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    nows: list[float] = []
    monkeypatch.setattr(time, "time", lambda: clock_now() + 7200.0)
    spectator = Spectator(lambda board, now: nows.append(now))
    spectator.show(Attached(RunRecord(planned(), "v", 1.0, (), None), leads=False))
    spectator.look()
    assert nows[0] <= clock_now()


def test_json_has_the_progress_in_numbers() -> None:
    board = Board(planned(max_restarts=3))
    board.add(Event(100.0, EventKind.RANK_STARTED, "n1", 0))
    board.add(Event(100.0, EventKind.RANK_STARTED, "n2", 1))
    board.add(ProgressReported("n1", SIGNS))
    board.add(LinesWritten("n2", "1.err", "step 6\n step 7\r epoch 3 \n", 101.0))
    mark = {"rank": 0, "step": 7, "total": None, "time": "1970-01-01T00:01:58.000+00:00"}
    assert progress(board, 120.0) == {
        "steps_per_second": None, "seconds_left": None, "furthest": mark, "slowest": mark,
        "last_lines": {"1": "epoch 3"},
    }  # fmt: skip


@pytest.fixture
def charge() -> runs.Recorder:
    """Controller of the run."""
    return runs.Recorder("7f3a9c01", pytest.fail)


def test_a_run_is_settled_when_its_controller_has_written_the_end_or_is_gone(charge: runs.Recorder) -> None:
    runs.begin(planned(), "v", 1.0)
    assert is_settled(runs.read("7f3a9c01")), "nobody is in charge of it here"
    assert charge.take_charge()
    assert not is_settled(runs.read("7f3a9c01"))
    charge.finish(Outcome(Status.FAILED, "why", 2.0, (), {}))
    assert is_settled(runs.read("7f3a9c01"))


def test_a_run_that_may_be_started_again_is_settled_by_its_next_attempt(charge: runs.Recorder) -> None:
    plan = planned(max_restarts=1)
    runs.begin(plan, "v", 1.0)
    assert charge.take_charge()
    charge.finish(Outcome(Status.FAILED, "why", 2.0, (), {}))
    assert not is_settled(runs.read("7f3a9c01")), "its controller may start it again"
    following = replan(plan, ["n1", "n2"])
    runs.begin(following, "v", 3.0)
    assert is_settled(runs.read("7f3a9c01"))
    assert not is_settled(runs.read("7f3a9c01.1")), "the controller of the first attempt is there"
