"""Views of ranks for tests: recorded ones, and ones built from a few words."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from pylaunch.protocol.examination import Collective, Frame, ProcessGroup, RankView, ThreadStack
from pylaunch.verdict.hangs.calls import group_counters
from pylaunch.verdict.hangs.ranks import HangEvidence

CASES = Path(__file__).parents[3] / "cases" / "collectives"
SITE = "/opt/env/lib/python3.11/site-packages"
IN_ALL_REDUCE = (
    Frame("all_reduce", f"{SITE}/torch/distributed/distributed_c10d.py", 3252),
    Frame("train_step", "/job/train.py", 71),
)
IN_OPEN = (Frame("open", "/opt/env/lib/python3.11/pathlib.py", 1044), Frame("load", "/job/data.py", 88))


def recorded(name: str) -> HangEvidence:
    """Return the recorded case `name` of benchmarks/record_collectives.py."""
    samples = msgspec.json.decode(CASES.joinpath(f"{name}.json").read_bytes(), type=tuple[tuple[RankView, ...], ...])
    return HangEvidence("7f3a", {view.rank: view.host for view in samples[0]}, samples)


def call(
    number: int, operation: str = "all_reduce", *, over: bool = True, group: str = "0", size: int = 4
) -> Collective:
    """Return one collective of float32 tensors."""
    return Collective(group, number, operation, ((size,),), ((size,),), ("Float",), over)


def calls(last: int, *, over: bool, group: str = "0") -> tuple[Collective, ...]:
    """Return collectives up to `last`; the last one is pending unless it is `over`."""
    return tuple(call(number, over=over or number < last, group=group) for number in range(max(1, last - 3), last + 1))


def view(rank: int, made: Iterable[Collective], frames: Sequence[Frame], groups: Sequence[ProcessGroup]) -> RankView:
    """Return the view of a sleeping rank whose helper answered."""
    stack = ThreadStack("MainThread", True, tuple(frames))
    return RankView(
        rank, f"n{rank:02}", 1000.0, 0.001, 100 + rank, "S", 5.0, "helper", "", (stack,), tuple(groups), tuple(made)
    )


def evidence(views: Sequence[RankView], world: int | None = None) -> HangEvidence:
    """Return two equal samples of `views`, 5 s apart."""
    later = tuple(replace(each, time=each.time + 5) for each in views)
    ranks = range(len(views) if world is None else world)
    return HangEvidence("7f3a", {rank: f"n{rank:02}" for rank in ranks}, (tuple(views), later))


def brief(whole: RankView) -> RankView:
    """Return the answer of the same rank when only the last collective of each group is requested."""
    counters = group_counters([whole]).get(whole.rank, {})
    retired = {
        name: max((each.sequence for each in whole.collectives if each.group == name and each.is_retired), default=0)
        for name in counters
    }
    calls_of_groups = tuple(
        Collective(name, last, "", (), (), (), retired[name] >= last) for name, (last, _) in counters.items()
    )
    return replace(whole, collectives=calls_of_groups)


def default_group(world: int, description: str = "default_pg") -> ProcessGroup:
    """Return the group of all ranks."""
    return ProcessGroup("0", description, tuple(range(world)))


def one_late(world: int, late: int, frames: Sequence[Frame] = IN_OPEN, number: int = 412) -> list[RankView]:
    """Return views of ranks that wait in all_reduce, for one that is elsewhere."""
    groups = [default_group(world, "dp")]
    return [
        view(rank, calls(number - 1, over=True), frames, groups)
        if rank == late
        else view(rank, calls(number, over=False), IN_ALL_REDUCE, groups)
        for rank in range(world)
    ]
