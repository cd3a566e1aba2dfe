"""Alarms come in time for hangs, and never for slow phases of healthy runs."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangKind
from pylaunch.protocol.examination import Frame, RankView, ThreadStack
from pylaunch.protocol.progress import RankSigns
from pylaunch.verdict.hangs.judge import judge_hang
from pylaunch.verdict.hangs.ranks import HangEvidence
from pylaunch.verdict.hangs.suspicion import HangReport, ProgressResumed, Suspicion
from tests.unit.verdict.hangs.views import (
    IN_ALL_REDUCE,
    IN_OPEN,
    SITE,
    brief,
    calls,
    default_group,
    one_late,
    recorded,
    view,
)
from tests.unit.verdict.hangs.watched_runs import AFTER_S, MAIN, World, after_start, aged, silent, watched


@pytest.mark.parametrize(
    "name",
    ["chain_of_groups", "inverse_order", "is_stopped", "no_barrier", "opens_file", "other_operation", "reads_terminal",
     "skips_and_continues", "skips_and_waits", "starts_asynchronous"],
)  # fmt: skip
def test_every_recorded_hang_is_reported_within_a_minute(name: str) -> None:
    views = recorded(name).samples[0]
    world = silent([replace(each, step=7) for each in views])
    [(at, report)] = [each for each in watched(world, 300) if isinstance(each[1], HangReport)]
    assert isinstance(report, HangReport)
    assert report.finding.is_hang
    assert at <= 61


def test_a_stopped_rank_is_reported_even_before_the_first_step() -> None:
    views = [replace(each, groups=(), collectives=()) for each in recorded("is_stopped").samples[0]]
    assert watched(silent(views), 40)[0][1].finding.kind is HangKind.STOPPED  # type: ignore[union-attr]


def test_a_wait_for_a_disk_is_reported_soon_in_training_and_late_in_imports() -> None:
    imports = [view(rank, (), (Frame("find_spec", "/job/train.py", 1),), []) for rank in range(4)]
    imports[2] = replace(imports[2], state="D")
    training = [replace(each, step=7) for each in imports]
    assert 30 <= watched(silent(training), 300)[0][0] <= 32
    assert 120 <= watched(silent(imports), 300)[0][0] <= 136


def test_ranks_that_all_wait_for_the_start_of_torch_end_no_run() -> None:
    waiting = (Frame("init_process_group", f"{SITE}/torch/distributed/distributed_c10d.py", 1), MAIN)
    views = [view(rank, (), waiting, []) for rank in range(3)]
    [(_, starting)] = watched(silent(views), 300)
    [(_, settled)] = watched(silent([replace(each, step=7) for each in views]), 300)
    assert isinstance(starting, HangReport)
    assert isinstance(settled, HangReport)
    assert (starting.finding.confidence, settled.finding.confidence) == (Confidence.MEDIUM, Confidence.HIGH)


def in_thread(seen: RankView) -> RankView:
    """Return `seen` with another thread in the user's code."""
    uploads = ThreadStack("Thread-1", is_main=False, frames=(Frame("upload", "/job/train.py", 30),))
    return replace(seen, step=7, threads=(*seen.threads, uploads))


@pytest.mark.parametrize(
    ("changed", "ends"),
    [
        (lambda seen: replace(seen, step=7), True),
        (in_thread, False),
        (lambda seen: replace(seen, step=7, wchan="hrtimer_nanosleep"), False),
        (lambda seen: replace(seen, step=7, threads=()) if seen.rank else replace(seen, step=7), False),
    ],
    ids=["stand still", "a thread may wait for a server", "sleep", "one shows no stack"],
)
def test_a_hang_that_accuses_nobody_ends_a_run_only_if_no_rank_works_nor_can_wait_for_anything_outside(
    changed: Callable[[RankView], RankView], ends: bool
) -> None:
    views = [changed(each) for each in one_late(2, 1)]
    reports = [report for _, report in watched(silent(views), 200) if isinstance(report, HangReport)]
    assert [(each.finding.ranks, each.finding.confidence is Confidence.HIGH) for each in reports] == [((), ends)]
    assert any(line.startswith("no rank used a processor") for line in reports[0].finding.evidence) == ends


def test_the_same_finding_is_reported_once() -> None:
    views = [replace(each, step=7) for each in one_late(8, 3)]
    assert len(watched(silent(views), 3600)) == 1


def waits_since(began: float, *, has_ages: bool) -> World:
    """Return ranks that call a collective every second and write nothing, until one is late at `began`."""

    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        last = min(now, began)
        views = one_late(4, 1, number=100 + int(last))
        return [], [aged(each, now - last) for each in views] if has_ages else views

    return world


@pytest.mark.parametrize(
    ("began", "has_ages", "reported"),
    [(13, True, (43, 30)), (40, True, (70, 30)), (13, False, (30, 15))],
    ids=["after the first views", "before the views that showed progress", "of unknown age"],
)
def test_the_time_without_progress_is_that_of_the_collective_or_at_least_that_since_the_first_views(
    began: float, has_ages: bool, reported: tuple[float, float]
) -> None:
    """The first views, at 15 s, do not show that the ranks advanced until 13 s."""
    [(at, report)] = watched(waits_since(began, has_ages=has_ages), 120)
    assert isinstance(report, HangReport)
    assert (at, report.quiet_s, report.is_exact) == (*reported, has_ages)


def test_output_after_a_report_is_reported_as_progress() -> None:
    views = [replace(each, step=7) for each in one_late(8, 3)]

    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        return [RankSigns(0, 100 if now < 100 else 200, 7)], views

    found = watched(world, 110)
    assert [type(each) for _, each in found] == [HangReport, ProgressResumed]
    assert found[1][0] == 100


def test_collectives_that_advance_between_two_views_are_progress() -> None:
    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        number = 10 + int(now / 20)
        return [], [view(rank, calls(number, over=False), IN_ALL_REDUCE, [default_group(4)]) for rank in range(4)]

    assert watched(world, 3600) == []


def test_a_recorded_run_that_advances_is_no_hang() -> None:
    first, *_, last = recorded("is_healthy").samples
    state = Suspicion(AFTER_S, 0.0).with_views(15.0, tuple(map(brief, first))).with_views(30.0, tuple(map(brief, last)))
    assert state.quiet_since == 30.0


def without(views: Sequence[RankView], *ranks: int) -> list[RankView]:
    """Return `views`; `ranks` did not answer in time."""
    return [
        replace(each, source="", note="no stacks: no answer in 1 s", threads=(), groups=(), collectives=())
        if each.rank in ranks
        else each
        for each in views
    ]


def without_ages(name: str) -> list[RankView]:
    """Return recorded views of ranks after some steps, whose recorder does not know when calls began."""
    return [
        replace(each, step=7, collectives=tuple(replace(call, age_s=None) for call in each.collectives))
        for each in recorded(name).samples[0]
    ]


@pytest.mark.parametrize("name", ["skips_and_continues", "other_operation", "opens_file", "chain_of_groups"])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_rank_that_answers_late_every_other_time_delays_no_report(name: str, rank: int) -> None:
    """On a busy machine. The call that a rank added or another one shows only in a request for all calls."""
    views = without_ages(name)
    asked = 0

    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        nonlocal asked
        asked += now % 15 == 0
        older = [aged(each, now) for each in views]
        return [RankSigns(0, 100, 7)], without(older, rank) if asked % 2 == 0 else older

    reports = [(at, each.finding) for at, each in watched(world, 300) if isinstance(each, HangReport)]
    assert {each.is_hang for _, each in reports} == {True}
    assert {each.ranks for _, each in reports} == {judge_hang(recorded(name))[0].ranks}
    assert reports[0][0] <= 61


def test_imports_and_downloads_before_the_first_step_get_more_time() -> None:
    waiting = (Frame("init_process_group", f"{SITE}/torch/distributed/distributed_c10d.py", 1), MAIN)
    views = [view(rank, (), waiting if rank else (Frame("download", "/job/data.py", 3), MAIN), []) for rank in range(4)]
    assert watched(silent(views), 119) == []
    assert len(watched(silent(views), 240)) == 1


@given(st.lists(st.floats(1, 29), min_size=1, max_size=60), st.sampled_from(["out", "step"]))
def test_progress_in_every_gap_raises_no_alarm(gaps: list[float], sign: str) -> None:
    times = [sum(gaps[:count]) for count in range(len(gaps) + 1)]

    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        count = sum(time <= now for time in times)
        views = one_late(8, 5)
        return [RankSigns(2, count if sign == "out" else 0, count if sign == "step" else None)], views

    assert watched(world, sum(gaps)) == []


@given(st.integers(3, 20), st.data())
def test_a_hang_after_any_beginning_is_reported_in_time(world_size: int, data: st.DataObject) -> None:
    late = data.draw(st.integers(0, world_size - 1))
    begins = data.draw(st.integers(1, 100))
    views = [replace(each, step=7) for each in one_late(world_size, late)]
    found = watched(after_start(silent(views), begins), begins + 61)
    [(at, report)] = found
    assert isinstance(report, HangReport)
    assert report.finding.ranks == (late,)
    assert at - begins <= 60


def viewed(state: Suspicion, now: float, views: Sequence[RankView]) -> Suspicion:
    """Return the suspicion after whole views at `now`."""
    return state.with_views(now, tuple(replace(each, time=now) for each in views))


def reported(state: Suspicion, now: float, ended: Sequence[int]) -> HangReport | None:
    """Return the report at `now`, while these ranks have ended."""
    views = state.samples[-1]
    hosts = dict.fromkeys(range(4), "n1") | {each.rank: each.host for each in views}
    ends = dict.fromkeys(ended, "exited with code 0")
    return state.judged(now, judge_hang(HangEvidence("7f3a", hosts, state.samples, ends))[0])[1]


@pytest.mark.parametrize(
    ("function", "cpu", "at", "text"),
    [
        ("upload", 0.0, 120, "ranks 1-3 exited with code 0; rank 0 on n00 is in upload (train.py:3)"),
        ("upload", 1.0, 120, "ranks 1-3 exited with code 0; rank 0 on n00 is in upload (train.py:3), and computes"),
        ("", 0.0, 120, "ranks 1-3 exited with code 0; rank 0 on n00 shows no stack"),
    ],
)
def test_a_rank_that_runs_on_after_all_others_exited_with_0_is_shown_and_not_accused(
    function: str, cpu: float, at: int, text: str
) -> None:
    state, report = Suspicion(AFTER_S, 0.0, signs=5).with_over(0, [1, 2, 3]), None
    for now in range(15, at + 1, 15):
        seen = view(0, (), (Frame(function, "/job/train.py", 3),), ())
        only = replace(seen, cpu_s=cpu * now, threads=seen.threads if function else ())
        state = viewed(state, now, [only])
        report = reported(state, now, [1, 2, 3])
        assert (report is None) == (now < at)
    assert report is not None
    assert report.finding.ranks == ()
    assert ("hang: " * report.finding.is_hang + report.finding.text).startswith(text)


def test_numbers_of_brief_and_of_whole_views_are_not_compared() -> None:
    """After sends and receives on NCCL, the status of a group has another number than its last collective."""
    whole = tuple(replace(each, step=7) for each in one_late(8, 3))

    def counted(now: float) -> tuple[RankView, ...]:
        return tuple(
            replace(each, time=now, collectives=(replace(each.collectives[0], sequence=9001),))
            for each in map(brief, whole)
        )

    state = Suspicion(AFTER_S, 0.0).with_views(15.0, counted(15.0)).with_views(30.0, counted(30.0))
    assert state.wants_calls
    state = state.with_all_calls(30.0, whole).with_views(45.0, counted(45.0))
    assert (state.quiet_since, state.wants_calls) == (0.0, False)
    best = judge_hang(HangEvidence("7f3a", {each.rank: each.host for each in whole}, state.samples))[0]
    assert (best.kind, best.ranks) == (HangKind.LATE, (3,))
    assert "all_reduce #412 of dp" in best.text


def test_a_rank_whose_c_code_computes_while_it_keeps_the_interpreter_lock_is_slow() -> None:
    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        views = one_late(4, 1)
        views[1] = replace(views[1], source="signal", groups=(), collectives=(), cpu_s=now)
        return [RankSigns(0, 100, 7)], views

    [(at, report)] = watched(world, 300)
    assert isinstance(report, HangReport)
    assert (report.finding.kind, report.finding.ranks, report.finding.confidence) == (
        HangKind.BUSY, (1,), Confidence.MEDIUM,
    )  # fmt: skip
    assert at <= 4 * AFTER_S + 1


@pytest.mark.parametrize("polls", [0.0, 0.2], ids=["idle", "threads of the library poll"])
def test_a_rank_that_never_came_to_the_end_of_rpc_is_named_though_no_rank_shows_a_collective(polls: float) -> None:
    api = f"{SITE}/torch/distributed/rpc/api.py"
    leaves = (Frame("wait", "/usr/lib/python3.11/threading.py", 1), Frame("shutdown", api, 3), Frame("wrapper", api, 9))

    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        views = [view(rank, (), (*(leaves if rank != 1 else IN_OPEN), MAIN), []) for rank in range(3)]
        return [RankSigns(0, 100, 7)], [replace(each, cpu_s=polls * now) for each in views]

    [(at, report)] = watched(world, 300)
    assert isinstance(report, HangReport)
    assert (report.finding.is_hang, report.finding.ranks) == (not polls, (1,))
    assert report.finding.text.startswith("ranks 0,2 wait in shutdown; rank 1 on n01 is in ")
    assert at <= (4 * AFTER_S if polls else AFTER_S) + 1
