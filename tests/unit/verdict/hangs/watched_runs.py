"""Runs whose ranks a watch polls."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pylaunch.protocol.examination import Frame, RankView
from pylaunch.protocol.progress import RankSigns
from pylaunch.verdict.hangs.judge import judge_hang
from pylaunch.verdict.hangs.ranks import HangEvidence
from pylaunch.verdict.hangs.suspicion import HangReport, ProgressResumed, Suspicion
from tests.unit.verdict.hangs.views import brief, one_late

AFTER_S = 30.0
POLL_S = 1.0

World = Callable[[float], tuple[Sequence[RankSigns], Sequence[RankView]]]
"""State of all ranks at a time."""


def watched(world: World, for_s: float) -> list[tuple[float, HangReport | ProgressResumed]]:
    """Return what a watch that polls `world` reports, with the times."""
    now, state = 0.0, Suspicion(AFTER_S, 0.0)
    found: list[tuple[float, HangReport | ProgressResumed]] = []
    while now < for_s:
        now += POLL_S
        activity, views = world(now)
        before, state = state, state.with_activity(now, activity)
        if news := state.resumed(before):
            found.append((now, news))
        if state.is_due(now):
            whole = tuple(replace(each, time=now) for each in views)
            before, state = state, state.with_views(now, tuple(map(brief, whole)))
            if state.wants_calls:
                state = state.with_all_calls(now, whole)
            hosts = {each.rank: each.host for each in views}
            asked = HangEvidence("7f3a", hosts, state.samples, after_s=AFTER_S, is_settled=state.is_settled)
            state, report = state.judged(now, judge_hang(asked)[0])
            if report is not None:
                found.append((now, report))
            elif news := state.resumed(before):
                found.append((now, news))
    return found


def aged(seen: RankView, age_s: float) -> RankView:
    """Return `seen` with calls of this age."""
    return replace(seen, collectives=tuple(replace(call, age_s=age_s) for call in seen.collectives))


def silent(views: Sequence[RankView]) -> World:
    """Return ranks that write nothing and never change."""
    return lambda now: (
        [RankSigns(each.rank, 100, each.step) for each in views],
        [aged(each, now) for each in views],
    )


def after_start(world: World, at: float) -> World:
    """Return ranks that write a line every second until `at`."""
    return lambda now: ([RankSigns(0, int(min(now, at)))], world(now)[1])


def computes_at_times(frames: Sequence[Frame], computed_s: Callable[[float], float]) -> World:
    """Return ranks of which one is late in `frames` and has computed for `computed_s(now)`."""

    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        views = one_late(4, 0, frames)
        views[0] = replace(views[0], cpu_s=computed_s(now))
        return [RankSigns(each.rank, 100, 7) for each in views], views

    return world


def late_in(frames: Sequence[Frame], *, cpu: float = 0.0) -> World:
    """Return ranks of which one is late in `frames`, and uses this share of a core."""
    return computes_at_times(frames, lambda now: now * cpu)


MAIN = Frame("main", "/job/train.py", 9)
