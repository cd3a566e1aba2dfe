"""Ranks whose program began again on its own, such as by exec or in a loop of a wrapper. Pure.

The numbers of collectives count from 1 in each program, so those of a rank that began again have no counterpart. A
group exists once all of its ranks have joined it: if another rank finished a collective of the group that it had called
before the program of this rank began, an earlier program of the rank has joined.
"""

from collections.abc import Iterable, Iterator, Mapping

from pylaunch.protocol.examination import Collective, RankView
from pylaunch.verdict.hangs.calls import GroupCalls

LEAST_S = 1.0
"""Time between a call and the begin of a program that is no error of clocks."""


def restarted_ranks(views: Mapping[int, RankView], groups: Iterable[GroupCalls]) -> dict[int, str]:
    """Return the ranks that began again, in words: "restarted on its own 40 s ago, after all_reduce #15 of dp"."""
    found: dict[int, str] = {}
    for group in groups:
        finished = {rank: _last_finished(calls) for rank, calls in group.calls.items()}
        for rank in group.key.ranks:
            view = views.get(rank)
            if view is not None and view.age_s is not None and any(_missed(views, group, view, finished.get(rank, 0))):
                number, other = max((number, other) for other, number in finished.items() if other != rank)
                found[rank] = f"restarted on its own {view.age_s:.0f} s ago, after {group.shown_call(number, other)}"
    return found


def _last_finished(calls: Mapping[int, Collective]) -> int:
    return max((number for number, call in calls.items() if call.is_retired), default=0)


def _missed(views: Mapping[int, RankView], group: GroupCalls, view: RankView, finished: int) -> Iterator[bool]:
    """Yield True for calls that another rank finished, and had called before the program of `view` began.

    `finished`: the last call that the rank of `view` finished.
    """
    began = view.time - (view.age_s or 0.0)
    for other, calls in group.calls.items():
        seen = views[other]
        until = began - LEAST_S - view.uncertainty_s - seen.uncertainty_s
        for number, call in calls.items():
            if call.is_retired and call.age_s is not None and number > finished:
                yield seen.time - call.age_s < until
