import pytest

from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol.progress import RankSigns
from pylaunch.runs.events import ProgressReported
from pylaunch.terminal.views.board import LONGEST_S, Board, Pace, RankStep


def board(nodes: int) -> Board:
    hosts = tuple(Host(f"n{number}", f"10.0.0.{number}") for number in range(1, nodes + 1))
    return Board(plan_run(Cluster(hosts), JobSpec(("a",), Framework.COMMAND, "/", ranks_per_node=2), "7f3a9c01"))


def test_it_follows_a_run_from_its_start_to_its_end() -> None:
    shown = board(3)
    assert shown.lines(10.0) == ["run 7f3a9c01 starting: 0 of 6 ranks on n[1-3]"]
    shown.add(Event(100.0, EventKind.RELEASED))
    for rank in range(6):
        shown.add(Event(100.0, EventKind.RANK_STARTED, "n1", rank))
    assert shown.lines(300.0) == ["run 7f3a9c01 running for 3 min 20 s: 6 of 6 ranks on n[1-3]"]
    shown.add(Event(301.0, EventKind.CONTACT_LOST, "n2"))
    shown.add(Event(302.0, EventKind.RANK_ENDED, "n1", 0))
    shown.add(Event(302.0, EventKind.STOP_ASKED))
    assert shown.lines(303.0)[0].endswith("5 of 6 ranks on n[1-3], 1 ended, no contact with n2")
    shown.add(Event(304.0, EventKind.CONTACT_REGAINED, "n2"))
    assert shown.lines(305.0) == ["run 7f3a9c01 stopping for 3 min 25 s: 5 of 6 ranks on n[1-3], 1 ended"]


def test_progress_is_shown_for_the_furthest_and_the_slowest_rank() -> None:
    shown = board(3)
    for rank in range(6):
        shown.add(Event(100.0, EventKind.RANK_STARTED, f"n{rank // 2 + 1}", rank))
    assert shown.progress(200.0) == ""
    shown.add(ProgressReported("n1", [RankSigns(0, 0, 812, 199.0), RankSigns(1, 0, 812, 198.0)]))
    assert shown.progress(200.0) == "step 812: 2 ranks, the last 1 s ago; 4 mark no steps"
    shown.add(ProgressReported("n2", [RankSigns(2, 0, 812, 199.5), RankSigns(3, 0, 811, 160.0)]))
    shown.add(ProgressReported("n3", [RankSigns(4, 0, 812, 190.0), RankSigns(5, 0, 811, 165.0)]))
    assert shown.progress(200.0) == "step 812: rank 2 on n2, 0 s ago; slowest 811: rank 5 on n3, 35 s ago"
    shown.add(Event(201.0, EventKind.RANK_ENDED, "n3", 5))
    assert "slowest 811: rank 3 on n2" in shown.lines(200.0)[1], "a rank that has ended holds nobody up"
    shown.add(ProgressReported("n2", [RankSigns(3, 0, 812, 202.0)]))
    assert shown.lines(203.0)[1] == "  step 812 (42 s/step): all ranks, the last 1 s ago", (
        "rank 2 keeps the mark before"
    )


def paced(*marks: tuple[int, float], total: int = 0) -> Pace:
    pace = Pace()
    for step, time in marks:
        pace.add(RankStep(3, step, time, total))
    return pace


def test_the_rate_is_that_of_the_last_minute() -> None:
    slow_then_fast = [(10, 0.0), (20, 100.0), *((20 + 4 * seconds, 100.0 + seconds) for seconds in range(2, 91, 2))]
    assert paced(*slow_then_fast).rate(3, 190.0) == pytest.approx(4.0)


def test_a_rank_that_is_stuck_has_no_rate() -> None:
    pace = paced((10, 10.0), (20, 20.0))
    assert pace.rate(3, 21.0) == pytest.approx(1.0)
    assert pace.rate(3, 40.0) is None


def test_the_remaining_time_is_known_only_with_a_total() -> None:
    marks = (10, 10.0), (20, 20.0)
    assert paced(*marks).left_s(RankStep(3, 20, 20.0), 22.0) is None
    assert paced(*marks).left_s(RankStep(3, 20, 20.0, 100), 22.0) == pytest.approx(78.0)
    assert paced(*marks).left_s(RankStep(3, 20, 20.0, 20), 22.0) == 0.0
    assert paced(*marks).left_s(RankStep(3, 20, 20.0, round(LONGEST_S) * 2), 22.0) is None


def test_forged_marks_of_a_rank_cause_no_error() -> None:
    pace = paced((-(2**63), 1e-320), (2**63 - 1, 1e300), (5, 2e-320), total=2**63 - 1)
    for now in (0.0, 1e9):
        pace.left_s(RankStep(3, -(2**63), 1e300, 2**63 - 1), now)
    pace = paced((1, 1e-320), (2, 2e-320), (2**63 - 1, 3e-320), total=2**63 - 1)
    pace.left_s(RankStep(3, 1, 2e-320, 2**63 - 1), 3e-320)
