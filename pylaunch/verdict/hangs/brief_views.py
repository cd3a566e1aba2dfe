"""Views that have the last collective of each group only, which costs a rank least, beside whole ones. Pure.

The numbers of the two kinds are not compared: where a rank also sends and receives on NCCL, torch counts these
operations in the status of a group, and not among the collectives.
"""

from collections.abc import Iterable, Mapping

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.protocol.examination import Collective, RankView
from pylaunch.verdict.hangs.calls import group_calls


@dataclass(frozen=True)
class GroupCounter:
    """Position of a rank in one group."""

    last: int
    """Number of the last call."""

    pending: int | None
    is_brief: bool
    """From a brief view, in which only the last call can be pending."""

    def differs(self, earlier: "GroupCounter") -> bool:
        """Return True if the rank advanced since `earlier`, as two views of one kind show."""
        advanced = (self.last, self.pending) != (earlier.last, earlier.pending)
        return advanced and self.is_brief is earlier.is_brief


Counters = Mapping[str, GroupCounter]
"""Counter of each group, by name."""


def is_brief(view: RankView) -> bool:
    """Return True if the collectives of `view` are the last ones only: an entry without its operation."""
    return any(not call.operation for call in view.collectives)


def group_counters(views: Iterable[RankView]) -> dict[int, Counters]:
    """Return the counters of each rank."""
    listed = list(views)
    brief = {view.rank for view in listed if is_brief(view)}
    found: dict[int, dict[str, GroupCounter]] = {}
    for group in group_calls(listed, range(1 + max((view.rank for view in listed), default=0))):
        for rank in group.calls:
            counter = GroupCounter(group.last(rank), group.pending(rank), rank in brief)
            found.setdefault(rank, {})[group.key.name] = counter
    return dict(found)


def has_advanced(now: Counters, before: Counters) -> bool:
    """Return True if a rank with these counters advanced, or knows other groups."""
    return now.keys() != before.keys() or any(counter.differs(before[name]) for name, counter in now.items())


def with_calls(views: Iterable[RankView], whole: Iterable[RankView]) -> tuple[RankView, ...]:
    """Return `views`, brief ones with the calls in the last `whole` view of the same rank, which are older by then.

    The caller knows that the ranks have not advanced between the two.
    """
    calls = {view.rank: view for view in whole if view.collectives and not is_brief(view)}
    return tuple(
        replace(view, groups=calls[view.rank].groups, collectives=_aged(calls[view.rank], view.time))
        if is_brief(view) and view.rank in calls
        else view
        for view in views
    )


def _aged(view: RankView, time: float) -> tuple[Collective, ...]:
    return tuple(
        call if call.age_s is None else replace(call, age_s=max(0.0, call.age_s + time - view.time))
        for call in view.collectives
    )
