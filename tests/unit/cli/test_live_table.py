"""Rows of `status --watch` of several runs."""

from pylaunch.cli.views.live_table import RowView
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind
from pylaunch.terminal.views.board import Board

NOW = 1_780_000_000.0
HOSTS = (Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2"))
PLAN = plan_run(Cluster(HOSTS), JobSpec(("train.py",), Framework.COMMAND, "/srv"), "7f3a9c01")


def test_a_run_is_a_row_with_its_progress_and_its_lost_nodes() -> None:
    board, view = Board(PLAN), RowView()
    board.on(Event(NOW - 60, EventKind.RELEASED, "n1"))
    board.on(Event(NOW - 60, EventKind.RANK_STARTED, "n1", 0))
    board.on(Event(NOW - 5, EventKind.CONTACT_LOST, "n2", None, "no route"))
    board.wrote("0.out", "step 7/10\n", NOW - 2)
    view.show(board, NOW)
    assert view.cells[:5] == ("7f3a9c01", "running, no contact with n2", "1 min 0 s", "1 of 2", "n[1-2]")
    assert view.cells[5].startswith("step 7 of 10: rank 0 on n1, 2 s ago")
