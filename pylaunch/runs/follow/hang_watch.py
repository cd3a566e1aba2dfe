"""Watch the ranks of a released run for hangs, beside the follower, as `verdict.hangs` decides."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from pylaunch import protocol
from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangKind
from pylaunch.model.job import OnHang
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol.node_evidence import HostEvidence
from pylaunch.runs.events import clock_now
from pylaunch.runs.follow.run_state import RunState
from pylaunch.runs.stacks import RunSample
from pylaunch.verdict.hangs.ranks import HangEvidence
from pylaunch.verdict.hangs.suspicion import HangReport, ProgressResumed, Suspicion
from pylaunch.verdict.rank_end import described

EXAMINE_S = 4.0
"""For nodes to send the views of their ranks, which have half of that time to answer: a busy machine takes a second."""

LONGEST_TICK_S = 1.0
TICKS = 12
"""Ticks in the time without progress after which ranks are examined."""

SHOWN_LINES = 8
"""Lines of evidence in the record and on the screen."""


def interval_s(plan: RunPlan) -> float:
    """Return the interval at which nodes report signs of life of the ranks of `plan`; 0 is never."""
    after = plan.job.hang_after
    return 0.0 if after is None else min(LONGEST_TICK_S, after.total_seconds() / TICKS)


HangNews = HangReport | ProgressResumed
"""Message of the watch to the follower."""


class ViewTaker(Protocol):
    """Takes a view of every rank that runs and whose node answers within `within_s`.

    `call_sites` adds where each collective was called; `progress` asks for the last collective of each group only,
    which costs the ranks least; `node` adds the facts of the nodes.
    """

    async def __call__(
        self, *, call_sites: bool = False, progress: bool = False, node: bool = False, within_s: float = EXAMINE_S
    ) -> RunSample: ...


class HangWatch:
    """Suspicion of one run, fed by its nodes."""

    def __init__(self, plan: RunPlan, examine: ViewTaker, state: Callable[[], RunState]) -> None:
        after = plan.job.hang_after
        self._plan = plan
        self._examine = examine
        self._state = state
        self._suspicion = Suspicion(0.0 if after is None else after.total_seconds(), time.monotonic())
        self._hosts = {rank.rank: node.host.name for node in plan.nodes for rank in node.ranks}
        by_address = [(node.host.address, node.host.name) for node in plan.nodes]
        shared = {address for address, count in Counter(address for address, _ in by_address).items() if count > 1}
        self._addresses = {address: name for address, name in by_address if address not in shared}
        self._facts: tuple[HostEvidence, ...] = ()
        self._resumed: list[ProgressResumed] = []

    def add(self, activity: protocol.Activity) -> None:
        """Take signs of life of the ranks of one node."""
        self._become(self._suspicion.with_activity(time.monotonic(), activity.ranks))

    async def next(self) -> HangNews:
        """Wait until there is something to report."""
        while True:
            await asyncio.sleep(interval_s(self._plan))
            if self._resumed:
                return self._resumed.pop()
            self._add_ends()
            if self._state().stop is None and self._suspicion.is_due(time.monotonic()):
                report = await self._look()
                if report is not None:
                    return report

    async def _look(self) -> HangReport | None:
        sample = await self._examine(progress=True, node=self._suspicion.calls_requests > 0)
        self._add_ends()
        self._become(self._suspicion.with_views(time.monotonic(), sample.views))
        if self._suspicion.wants_calls:
            within_s = EXAMINE_S * (1 + self._suspicion.calls_requests)
            whole = await self._examine(call_sites=True, node=True, within_s=within_s)
            if not self._suspicion.samples:
                return None  # A rank advanced meanwhile.
            self._suspicion = self._suspicion.with_all_calls(time.monotonic(), whole.views)
            sample = replace(sample, facts=whole.facts)
        self._facts = sample.facts
        if not sample.views or self._state().stop is not None:
            return None
        from pylaunch.verdict.hangs.judge import judge_hang  # noqa: PLC0415 -- 15 ms that only a suspected hang costs

        findings = await asyncio.to_thread(partial(judge_hang, self._evidence()))
        self._add_ends()
        after, report = self._suspicion.judged(time.monotonic(), findings[0])
        self._become(after)
        return report

    def _add_ends(self) -> None:
        ended = [end.rank for end in self._state().ends if end.rank is not None]
        self._become(self._suspicion.with_over(time.monotonic(), ended))

    def _evidence(self) -> HangEvidence:
        state = self._state()
        ended = {end.rank: described(end) for end in state.ends if end.rank is not None}
        # On a busy machine a healthy node can be late with one answer.
        seen = {view.host for sample in self._suspicion.samples[-2:] for view in sample}
        silent = {
            host: "no answer to the request for stacks"
            for host in state.live
            if host not in seen and not state.ranks[host] <= ended.keys()
        }
        suspicion = self._suspicion
        quiet_s = time.monotonic() - suspicion.quiet_since
        return HangEvidence(
            self._plan.run, self._hosts, suspicion.samples, ended, silent, self._facts,
            self._addresses, clock_now() - quiet_s, suspicion.after_s, suspicion.is_settled,
        )  # fmt: skip

    def _become(self, after: Suspicion) -> None:
        before, self._suspicion = self._suspicion, after
        if news := after.resumed(before):
            self._resumed.append(news)


def event(news: HangNews, action: OnHang = OnHang.OBSERVE) -> Event:
    """Return the event that the record keeps; it says where a finding is not good enough for `action`."""
    now = clock_now()
    quiet = f"{'' if news.is_exact else 'at least '}{news.quiet_s:.0f} s without progress"
    if isinstance(news, ProgressResumed):
        return Event(now, EventKind.ADVANCING, text=f"ranks advance again, after {quiet}")
    finding = news.finding
    is_acted_on = action is OnHang.OBSERVE or finding.confidence is Confidence.HIGH
    unsure = "" if is_acted_on else f": not enough for --on-hang {action.value}"
    what = "hang" if finding.is_hang else "quiet" if finding.kind is HangKind.UNDECIDED else "slow"
    return Event(
        now,
        EventKind.HANG,
        finding.hosts[0] if len(finding.hosts) == 1 else None,
        finding.ranks[0] if len(finding.ranks) == 1 else None,
        f"{what}: {finding.text} ({quiet}, {finding.confidence.value} confidence{unsure})",
        lines=finding.evidence[:SHOWN_LINES],
        hint=finding.hint,
    )
