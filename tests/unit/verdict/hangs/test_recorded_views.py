"""The finding on the views in a record agrees with the verdict, and accuses no rank that others ended."""

import pytest

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.model.outcome import Named, Outcome, Status
from pylaunch.protocol.examination import ProcessGroup, RankView
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.hangs.recorded_views import finding_on_views
from tests.unit.verdict.hangs.views import IN_ALL_REDUCE, IN_OPEN, calls, view

GROUP = (ProcessGroup("0", "dp", (0, 1, 2, 3)),)
HOSTS = {rank: f"n{rank:02}" for rank in range(4)}
WAITING = {rank: view(rank, calls(412, over=False), IN_ALL_REDUCE, GROUP) for rank in range(4)}
LATE = view(2, calls(411, over=True), IN_OPEN, GROUP)


def end(rank: int, symptom: str = "") -> RankEnd:
    return RankEnd(rank, HOSTS[rank], 3, None, 100.0 + rank, stopped=False, symptom=symptom)


def found(views: list[RankView], *ends: RankEnd, named: int | None = None) -> HangFinding | None:
    who = None if named is None else Named(HOSTS[named], named)
    return finding_on_views("7f3a", HOSTS, Outcome(Status.FAILED, "x", 110.0, ends, {}, named=who), views)


def test_the_end_that_the_verdict_names_explains_why_the_others_wait() -> None:
    finding = found([WAITING[rank] for rank in (0, 2, 3)], end(1), named=1)
    assert finding is not None
    assert (finding.kind, finding.ranks) == (HangKind.ENDED, (1,))
    assert "exited with code 3" in finding.text
    assert "#412 of dp" in finding.text
    assert any("all_reduce" in line for line in finding.evidence)


def test_a_victim_that_ended_is_not_the_rank_for_which_others_wait() -> None:
    finding = found([WAITING[0], WAITING[3], LATE], end(1, symptom="lost the connection to another rank"))
    assert finding is not None
    assert finding.kind is HangKind.LATE
    assert finding.confidence is Confidence.LOW
    assert finding.ranks == ()


@pytest.mark.parametrize("ends", [(end(1),), (end(1), end(3, symptom="lost the connection to another rank"))])
def test_a_rank_that_is_late_is_no_finding_beside_a_failure_that_explains_it(ends: tuple[RankEnd, ...]) -> None:
    finding = found([WAITING[0], LATE], *ends, named=1)
    assert finding is None or finding.ranks == (1,)


def test_without_a_failure_the_views_are_judged_as_those_of_a_hang() -> None:
    finding = found([WAITING[0], WAITING[1], LATE, WAITING[3]])
    assert finding is not None
    assert (finding.kind, finding.ranks) == (HangKind.LATE, (2,))


@pytest.mark.parametrize("views", [[], [WAITING[0]], [view(0, (), (), ()), view(1, (), (), ())]])
def test_views_that_show_nothing_have_no_finding(views: list[RankView]) -> None:
    assert found(views) is None
    assert found(views, end(3), named=3) is None
