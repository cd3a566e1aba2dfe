"""Output of `status --watch` without a terminal, and its end."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.table import Table

from pylaunch.cli.views import status
from pylaunch.cli.views.status import QUIET_S, Spectator, View, json_view, plain_view, row, snapshot
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan, plan_run, replan
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol.usage_report import StepMark, Usage
from pylaunch.runs import steady_clock
from pylaunch.runs.events import LinesWritten, UsageReported
from pylaunch.runs.watch import is_settled
from pylaunch.store import runs
from pylaunch.terminal import console
from pylaunch.terminal.views.board import Board

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
MARKED = "1970-01-01T00:01:58.000+00:00"
READING = Usage(0.25, 1 << 30, 2 << 30, 10.0, 20.0, None, 0, 0, [StepMark(0, 7, 118.0)])


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
    board.add(UsageReported("n1", READING))
    view(board, 120.0)
    assert len(lines) == 1
    view(board, 100.5 + QUIET_S)
    assert lines[1].endswith("; step 7: rank 0 on n1, 42 s ago")


def test_the_table_of_all_runs_reads_no_model_that_its_watcher_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Callable[[], Table]] = []

    class Watched:
        is_watching = False

        def __class_getitem__(cls, _: object) -> type:
            return cls

        def __init__(self, onlooker: Callable[[RunPlan, object], Spectator]) -> None:
            self.onlookers = [onlooker(planned(), None)]
            self.close = lambda: None

        def refresh(self) -> list[Any]:
            (spectator,) = self.onlookers
            assert drawn[0]().row_count == 0, "before the first look"
            spectator.look()
            spectator.show(Event(103.0, EventKind.CONTACT_LOST, "n2"))
            shown = [str(*drawn[0]().columns[1].cells)]
            spectator.look()
            assert [*shown, str(*drawn[0]().columns[1].cells)] == ["starting", "starting, no contact with n2"]
            return []

    @contextlib.contextmanager
    def draw(lines: Callable[[], Table], _: float) -> Iterator[None]:
        drawn.append(lines)
        yield

    monkeypatch.setattr(status, "LiveRuns", Watched)
    monkeypatch.setattr(status, "has_board", lambda: True)
    monkeypatch.setattr(console, "drawn", draw)
    status.watch_all(as_json=False)
    assert len(drawn) == 1


def test_json_is_printed_at_the_interval_of_the_readings() -> None:
    found: list[object] = []
    view = json_view(found.append)
    for now in (100.0, 100.5, 101.9, 102.0, 104.5):
        view(Board(planned()), now)
    assert len(found) == 3


def test_a_clock_that_is_set_changes_no_age_on_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    nows: list[float] = []
    monkeypatch.setattr(time, "time", lambda: steady_clock.now() + 7200.0)
    Spectator(planned(), lambda board, now: nows.append(now)).look()
    assert nows[0] <= steady_clock.now()


def test_json_has_the_board_in_numbers() -> None:
    onlooker = Spectator(planned(max_restarts=3), lambda board, now: None)
    onlooker.show(Event(100.0, EventKind.RANK_STARTED, "n1", 0))
    onlooker.show(Event(100.0, EventKind.RANK_STARTED, "n2", 1))
    onlooker.show(UsageReported("n1", READING))
    onlooker.show(LinesWritten("n2", "1.err", "step 6\n step 7\r epoch 3 \n", 101.0))
    assert snapshot(onlooker.board, 120.0) == {
        "time": "1970-01-01T00:02:00.000+00:00",
        "run": "7f3a9c01", "status": "starting", "restart": 0, "max_restarts": 3, "seconds": 20.0,
        "ranks": 2, "running": 2, "ended": 0, "hosts": ["n1", "n2"],
        "steps_per_second": None, "seconds_left": None,
        "furthest": {"rank": 0, "step": 7, "total": None, "time": MARKED},
        "slowest": {"rank": 0, "step": 7, "total": None, "time": MARKED},
        "last_lines": {"1": "epoch 3"}, "spares": [], "previous": None,
        "nodes": [
            {"host": "n1", "unreachable": None, "usage": {
                "cpu": 0.25, "memory_used": 1 << 30, "memory": 2 << 30, "received": 10, "sent": 20,
                "gpu": None, "gpu_memory_used": 0, "gpu_memory": 0, "steps": {"0": 7},
            }},
            {"host": "n2", "unreachable": None, "usage": None},
        ],
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


def test_a_run_is_a_row_with_its_progress_and_its_lost_nodes() -> None:
    board = Board(planned())
    board.add(Event(100.0, EventKind.RELEASED, "n1"))
    board.add(Event(100.0, EventKind.RANK_STARTED, "n1", 0))
    board.add(UsageReported("n1", READING))
    board.add(Event(119.0, EventKind.CONTACT_LOST, "n2", None, "no route"))
    shown = row(board, 160.0)
    assert shown[:5] == ("7f3a9c01", "running, no contact with n2", "1 min 0 s", "1 of 2", "n[1-2]")
    assert shown[5] == "step 7: rank 0 on n1, 42 s ago"
