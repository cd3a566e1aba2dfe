"""The watch asks ranks only while they are quiet, and the record gets the finding."""

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from pylaunch import protocol
from pylaunch.model import job
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.model.job import Framework, JobSpec, OnHang
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.model.run import EventKind
from pylaunch.protocol.examination import Frame
from pylaunch.protocol.node_evidence import HostEvidence, KernelEvent
from pylaunch.runs.follow import hang_watch
from pylaunch.runs.follow.hang_watch import HangNews, HangWatch, ViewTaker, event
from pylaunch.runs.follow.run_state import RunState
from pylaunch.runs.stacks import RunSample
from pylaunch.verdict.hangs.suspicion import HangReport
from tests.unit.verdict.hangs.views import brief, one_late

CLUSTER = Cluster(tuple(Host(f"n{number:02}", f"10.0.0.{number}") for number in range(4)))
STATE = RunState({f"n{rank:02}": frozenset({rank}) for rank in range(4)})
FACTS = (
    HostEvidence("n03", 4e9, 0.001, (KernelEvent("server-silent", 4e9, "nfs: server store not responding", "store"),)),
    HostEvidence("n02", 4e9, 0.001, clock_step_s=0.1),
)
"""Facts of two hosts at a later time than any test."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examine ranks in less time than a job may ask for."""
    monkeypatch.setattr(job, "LEAST_HANG", timedelta(0))


def plan(after_s: float | None) -> RunPlan:
    after = None if after_s is None else timedelta(seconds=after_s)
    return plan_run(CLUSTER, JobSpec(("true",), Framework.COMMAND, "/", hang_after=after), "7f3a9c01")


def test_silent_ranks_are_viewed_until_the_late_one_is_named() -> None:
    asked: list[tuple[bool, bool, bool]] = []

    async def examine(*, call_sites: bool = False, progress: bool = False, node: bool = False, **_: float) -> RunSample:
        asked.append((call_sites, progress, node))
        now = float(len(asked))
        views = one_late(4, 2) if call_sites else list(map(brief, one_late(4, 2)))
        return RunSample(tuple(replace(each, time=now) for each in views), FACTS if node else ())

    async def watch() -> HangNews:
        watch = HangWatch(plan(0.05), examine, lambda: STATE)
        watch.add(protocol.Activity([protocol.RankSigns(rank, 100, 7) for rank in range(4)]))
        return await asyncio.wait_for(watch.next(), 60)

    report = asyncio.run(watch())
    assert isinstance(report, HangReport)
    assert report.finding.ranks == (2,)
    assert asked[:3] == [(False, True, False), (False, True, False), (True, False, True)]
    assert "n03 kernel: nfs: server store not responding" in report.finding.evidence


def test_the_record_has_the_finding_the_rank_and_the_evidence() -> None:
    finding = HangFinding(
        HangKind.LATE,
        "ranks 0,2 wait; rank 1 on n1 is in load",
        Confidence.HIGH,
        (1,),
        ("n1",),
        ("a",) * 20,
        hint="look",
    )
    recorded = event(HangReport(finding, 31.4))
    assert (recorded.kind, recorded.host, recorded.rank, recorded.hint) == (EventKind.HANG, "n1", 1, "look")
    assert recorded.text == ("hang: ranks 0,2 wait; rank 1 on n1 is in load (31 s without progress, high confidence)")
    assert len(recorded.lines) == 8
    assert "(at least 31 s without progress, " in event(HangReport(finding, 31.4, is_exact=False)).text


def test_a_rank_that_works_is_slow_and_idle_programs_are_quiet() -> None:
    slow = HangFinding(HangKind.BUSY, "x", Confidence.MEDIUM)
    quiet = HangFinding(HangKind.UNDECIDED, "x", Confidence.LOW)
    assert event(HangReport(slow, 1.0)).text.startswith("slow: ")
    assert event(HangReport(quiet, 1.0)).text.startswith("quiet: ")


async def watched(examine: ViewTaker, enough: asyncio.Event, *, reports: int) -> list[HangNews]:
    """Return the first `reports` reports of a watch, which then continues until `enough`."""
    watch = HangWatch(plan(0.05), examine, lambda: STATE)
    found = [await asyncio.wait_for(watch.next(), 60) for _ in range(reports)]
    watching = asyncio.ensure_future(watch.next())
    await asyncio.wait_for(enough.wait(), 60)
    watching.cancel()
    await asyncio.wait({watching})
    return found


def test_ranks_that_stay_where_they_are_are_asked_for_all_calls_once() -> None:
    asked: list[tuple[bool, bool, bool]] = []
    enough = asyncio.Event()

    async def examine(*, call_sites: bool = False, progress: bool = False, node: bool = False, **_: float) -> RunSample:
        asked.append((call_sites, progress, node))
        if len(asked) == 12:
            enough.set()
        views = one_late(4, 2) if call_sites else list(map(brief, one_late(4, 2)))
        return RunSample(tuple(replace(each, time=float(len(asked))) for each in views))

    [first] = asyncio.run(watched(examine, enough, reports=1))
    assert isinstance(first, HangReport)
    assert "rank 2 on n02 is in load" in first.finding.text
    brief_only, whole, later = (False, True, False), (True, False, True), (False, True, True)
    assert asked[:12] == [brief_only, brief_only, whole, *[later] * 9]


def news_within(looks: int, answers: Callable[[int], RunSample], state: Callable[[int], RunState]) -> HangNews | None:
    """Return the news of a watch before view `looks` + 1 is requested; `answers` and `state` take the number of it.

    The clock advances by 2 ms whenever the watch reads it, so a busy machine does not make silences longer.
    """
    readings = itertools.count(1)
    clock = SimpleNamespace(monotonic=lambda: next(readings) * 0.002, time=time.time)
    asked = 0
    enough = asyncio.Event()

    async def examine(*, call_sites: bool = False, progress: bool = False, node: bool = False, **_: float) -> RunSample:
        nonlocal asked
        if not call_sites:
            asked += 1
        if asked > looks:
            enough.set()
            await asyncio.Event().wait()
        sample = answers(asked)
        return RunSample(tuple(replace(each, time=float(asked)) for each in sample.views))

    async def watch() -> HangNews | None:
        watch = HangWatch(plan(0.05), examine, lambda: state(asked))
        watching, waiting = asyncio.ensure_future(watch.next()), asyncio.ensure_future(enough.wait())
        await asyncio.wait({watching, waiting}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        news = watching.result() if watching.done() else None
        for task in (watching, waiting):
            task.cancel()
        await asyncio.wait({watching, waiting})
        return news

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hang_watch, "time", clock)
        return asyncio.run(watch())


EVALUATES = one_late(4, 3, (Frame("evaluate", "/job/train.py", 3), Frame("main", "/job/train.py", 9)))


def test_a_node_that_misses_one_answer_is_not_called_silent() -> None:
    def answers(look: int) -> RunSample:
        evaluates = [*EVALUATES[:3], replace(EVALUATES[3], cpu_s=float(look))]
        return RunSample(tuple(evaluates if look % 2 else EVALUATES[:3]))

    assert news_within(5, answers, lambda _: STATE) is None


def test_a_node_that_misses_every_answer_is_named() -> None:
    news = news_within(9, lambda look: RunSample(tuple(EVALUATES if look < 2 else EVALUATES[:3])), lambda _: STATE)
    assert isinstance(news, HangReport)
    assert news.finding.kind is HangKind.NODE_SILENT
    assert news.finding.hosts == ("n03",)


def test_a_finding_that_does_not_end_a_run_says_so_where_the_run_should_end_for_hangs() -> None:
    news = HangReport(HangFinding(HangKind.LATE, "x", Confidence.LOW), 1.0)
    assert event(news, OnHang.STOP).text.endswith("low confidence: not enough for --on-hang stop)")
    assert event(news).text.endswith("low confidence)")
    ends = HangReport(HangFinding(HangKind.LATE, "x", Confidence.HIGH), 1.0)
    assert event(ends, OnHang.STOP).text.endswith("high confidence)")
