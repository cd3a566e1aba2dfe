"""A rank that began again is the cause; its collectives are not compared with those of the others."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.protocol.examination import Collective, Frame, RankView
from pylaunch.verdict.hangs.judge import judge_hang
from tests.unit.verdict.hangs.views import IN_ALL_REDUCE, SITE, calls, default_group, evidence, view

AGO_S = 40.0
OLD_S = 600.0
"""Age of the programs that did not begin again."""

MAIN = Frame("main", "/job/train.py", 9)
IN_INIT = (Frame("init_process_group", f"{SITE}/torch/distributed/distributed_c10d.py", 1), MAIN)


def aged(made: Sequence[Collective], last_s: float) -> tuple[Collective, ...]:
    """Return calls of which each is a second older than the next."""
    return tuple(replace(each, age_s=last_s + len(made) - 1 - number) for number, each in enumerate(made))


def waits(rank: int, world: int = 3) -> RankView:
    """Return the view of a rank that waits in the sixteenth call since the restart of another one."""
    made = aged(calls(16, over=False), AGO_S + 2)
    return replace(view(rank, made, IN_ALL_REDUCE, [default_group(world)]), age_s=OLD_S)


def restarted(rank: int, made: Sequence[Collective], frames: Sequence[Frame], world: int = 3) -> RankView:
    """Return the view of a rank whose program began 40 s ago."""
    groups = [default_group(world)] if made else []
    return replace(view(rank, aged(made, 5.0), frames, groups), age_s=AGO_S)


def best(views: Sequence[RankView]) -> HangFinding:
    return judge_hang(evidence(views))[0]


@pytest.mark.parametrize(
    ("made", "frames"),
    [(calls(1, over=False), IN_ALL_REDUCE), ((), (MAIN,)), ((), IN_INIT)],
    ids=["in the first call of its new group", "imports", "waits for the others to join"],
)
@pytest.mark.parametrize("world", [2, 3])
def test_a_rank_that_began_again_is_named(made: Sequence[Collective], frames: Sequence[Frame], world: int) -> None:
    views = [waits(rank, world) for rank in range(world)]
    views[1] = restarted(1, made, frames, world)
    finding = best(views)
    assert (finding.kind, finding.ranks, finding.confidence) == (HangKind.RESTARTED, (1,), Confidence.HIGH)
    assert "in all_reduce #16 of the default group; rank 1 on n01 restarted on its own 40 s ago" in finding.text
    assert "after all_reduce #15 of the default group" in finding.text
    assert not any("#1 of" in line for line in finding.evidence), "its calls have no counterpart"


def test_ranks_that_all_began_again_are_compared_with_each_other() -> None:
    views = [restarted(rank, calls(2, over=False), IN_ALL_REDUCE) for rank in range(3)]
    assert best(views).kind is HangKind.TRANSPORT


def test_a_rank_that_began_later_than_others_and_took_part_is_not_named() -> None:
    """A slow node: the others called their first collective while it imported torch."""
    first = aged(calls(2, over=False), AGO_S + 9)
    views = [replace(view(rank, first, IN_ALL_REDUCE, [default_group(3)]), age_s=OLD_S) for rank in range(3)]
    views[1] = restarted(1, calls(1, over=True), (MAIN,))
    assert best(views).kind is HangKind.LATE


def test_programs_of_unknown_age_are_compared() -> None:
    views = [waits(rank) for rank in range(3)]
    views[1] = replace(restarted(1, calls(1, over=False), IN_ALL_REDUCE), age_s=None)
    assert best(views).kind is HangKind.TRANSPORT
