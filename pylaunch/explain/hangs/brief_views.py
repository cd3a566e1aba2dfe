"""Views that have the last collective of each group only, which costs a rank least, beside whole ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pylaunch.explain.hangs.calls import group_calls
from pylaunch.model.rank_view import RankView


@dataclass(frozen=True)
class GroupCounter:
    """Position of a rank in one group."""

    last: int
    """Number of the last call."""

    pending: int | None
    is_brief: bool
    """From a brief view, in which only the last call can be pending."""

    def differs(self, earlier: GroupCounter) -> bool:
        """Return True if the rank advanced since `earlier`. Views of two kinds agree on the last call only."""
        if self.is_brief is not earlier.is_brief:
            return self.last != earlier.last
        return (self.last, self.pending) != (earlier.last, earlier.pending)


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


def with_earlier_calls(views: Iterable[RankView], earlier: Iterable[RankView]) -> tuple[RankView, ...]:
    """Return `views`, brief ones with the calls of the `earlier` view of the rank if it has not advanced since."""
    listed = tuple(views)
    whole = {view.rank: view for view in earlier if view.collectives and not is_brief(view)}
    now, before = group_counters(listed), group_counters(whole.values())
    return tuple(
        replace(view, groups=whole[view.rank].groups, collectives=whole[view.rank].collectives)
        if is_brief(view) and view.rank in whole and not has_advanced(now[view.rank], before[view.rank])
        else view
        for view in listed
    )
