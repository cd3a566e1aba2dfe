"""Collectives of groups that the rank is not in."""

from dataclasses import replace

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangKind
from pylaunch.protocol.examination import ProcessGroup, RankView
from pylaunch.verdict.hangs.judge import judge_hang
from tests.unit.verdict.hangs.views import IN_ALL_REDUCE, call, calls, default_group, evidence, one_late, view


def pair_and_all(*, outside: tuple[str, ...]) -> list[RankView]:
    """Return views of three ranks: rank 0 waits for rank 1 in the group of both, and the others for it in all_reduce.

    Rank 2 called the collective of the pair in place of rank 1, if it has called one of a group that it is not in.
    """
    groups = [default_group(3), ProcessGroup("1", "pair", (0, 1))]
    views = [view(rank, calls(26, over=False), IN_ALL_REDUCE, groups[: 3 - max(rank, 1)]) for rank in range(3)]
    made = (*calls(25, over=True), call(1, group="1", over=False))
    views[0] = view(0, made, IN_ALL_REDUCE, groups)
    views[2] = replace(views[2], outside=outside)
    return views


def test_a_rank_that_calls_a_collective_of_a_group_that_it_is_not_in_is_shown() -> None:
    finding = judge_hang(evidence(pair_and_all(outside=("all_reduce",))))[0]
    assert "; rank 2 on n02 called all_reduce of a group that it is not in" in finding.text
    assert (finding.confidence, finding.ranks) == (Confidence.MEDIUM, ())
    assert "new_group" in finding.hint
    assert "same order" not in finding.hint


def test_of_the_two_ranks_of_a_group_neither_is_named_for_its_order() -> None:
    """Rank 0 made one call more, or rank 1 skipped it: two ranks have no majority."""
    finding = judge_hang(evidence(pair_and_all(outside=())))[0]
    assert (finding.kind, finding.confidence, finding.ranks) == (HangKind.GROUP_ORDER, Confidence.LOW, ())


def test_a_call_of_a_foreign_group_is_evidence_only_where_a_rank_is_elsewhere() -> None:
    views = [replace(each, outside=("broadcast",) if each.rank == 4 else ()) for each in one_late(8, 3)]
    finding = judge_hang(evidence(views))[0]
    assert (finding.kind, finding.ranks) == (HangKind.LATE, (3,))
    assert "called" not in finding.text
    assert finding.evidence[0].startswith("rank 4 on n04 called broadcast of a group that it is not in")
