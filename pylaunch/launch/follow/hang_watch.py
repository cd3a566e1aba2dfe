"""Watch the ranks of a released run for hangs, beside the follower, as `explain.hangs` decides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pylaunch.agent import wire
from pylaunch.explain.hangs.judge import judge
from pylaunch.explain.hangs.snapshot import HangEvidence
from pylaunch.explain.hangs.suspicion import HangReport, ProgressResumed, Suspicion
from pylaunch.explain.rank_end import described
from pylaunch.explain.run_state import RunState
from pylaunch.model.hang import HangKind, RankActivity
from pylaunch.model.plan import RunPlan
from pylaunch.model.rank_view import RankView
from pylaunch.model.run import Event, EventKind

LONGEST_TICK_S = 1.0
TICKS = 12
"""Ticks in the time without progress after which ranks are examined."""

SHOWN_LINES = 8
"""Lines of evidence in the record and on the screen."""


def interval_s(plan: RunPlan) -> float:
    """Return the interval at which nodes report signs of life of the ranks of `plan`; 0 is never."""
    after = plan.job.hang_after
    return 0.0 if after is None else min(LONGEST_TICK_S, after.total_seconds() / TICKS)


@dataclass(frozen=True)
class HangNews:
    """Message of the watch to the follower."""

    news: HangReport | ProgressResumed


class ViewTaker(Protocol):
    """Takes a view of every rank that runs (`RunFollower.examine`)."""

    async def __call__(self, *, call_sites: bool = False) -> tuple[RankView, ...]: ...


class HangWatch:
    """Suspicion of one run, fed by its nodes."""

    def __init__(self, plan: RunPlan, examine: ViewTaker, state: Callable[[], RunState]) -> None:
        after = plan.job.hang_after
        self._plan = plan
        self._examine = examine
        self._state = state
        self._suspicion = Suspicion(0.0 if after is None else after.total_seconds(), time.monotonic())
        self._hosts = {rank.rank: node.host.name for node in plan.nodes for rank in node.ranks}
        self._resumed: list[ProgressResumed] = []

    def add(self, activity: wire.Activity) -> None:
        """Take signs of life of the ranks of one node."""
        signs = (RankActivity(each.rank, each.written, each.step, each.moved) for each in activity.ranks)
        self._become(self._suspicion.with_activity(time.monotonic(), signs))

    async def next(self) -> HangReport | ProgressResumed:
        """Wait until there is something to report."""
        while True:
            await asyncio.sleep(interval_s(self._plan))
            if self._resumed:
                return self._resumed.pop()
            if self._state().stop is None and self._suspicion.is_due(time.monotonic()):
                report = await self._look()
                if report is not None:
                    return report

    async def _look(self) -> HangReport | None:
        views = await self._examine(call_sites=bool(self._suspicion.samples))
        self._become(self._suspicion.with_views(time.monotonic(), views))
        if not views or self._state().stop is not None:
            return None
        findings = await asyncio.to_thread(partial(judge, self._evidence()))
        after, report = self._suspicion.judged(time.monotonic(), findings[0])
        self._become(after)
        return report

    def _evidence(self) -> HangEvidence:
        state = self._state()
        ended = {end.rank: described(end) for end in state.ends if end.rank is not None}
        seen = {view.host for view in self._suspicion.samples[-1]}
        silent = {
            host: "no answer to the request for stacks"
            for host in state.live
            if host not in seen and not state.ranks[host] <= ended.keys()
        }
        suspicion = self._suspicion
        return HangEvidence(self._plan.run, self._hosts, suspicion.samples, ended, suspicion.moving, silent)

    def _become(self, after: Suspicion) -> None:
        before, self._suspicion = self._suspicion, after
        if news := after.resumed(before):
            self._resumed.append(news)


def event(news: HangReport | ProgressResumed) -> Event:
    """Return the event that the record keeps."""
    now = time.time()
    if isinstance(news, ProgressResumed):
        return Event(now, EventKind.ADVANCING, text=f"ranks advance again, after {news.quiet_s:.0f} s without progress")
    finding = news.finding
    what = "hang" if finding.is_hang else "quiet" if finding.kind is HangKind.UNDECIDED else "slow"
    return Event(
        now,
        EventKind.HANG,
        finding.hosts[0] if len(finding.hosts) == 1 else None,
        finding.ranks[0] if len(finding.ranks) == 1 else None,
        f"{what}: {finding.text} ({news.quiet_s:.0f} s without progress, {finding.confidence.value} confidence)",
        lines=finding.evidence[:SHOWN_LINES],
        hint=finding.hint,
    )
