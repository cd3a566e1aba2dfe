"""Ranks for which others wait are named in time: as slow while they work, as a hang if they do not."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangKind
from pylaunch.protocol.examination import Frame, RankView
from pylaunch.protocol.usage_report import RankSigns
from pylaunch.verdict.hangs.suspicion import HangReport
from tests.unit.verdict.hangs.views import IN_ALL_REDUCE, SITE, calls, default_group, one_late, view
from tests.unit.verdict.hangs.watched_runs import (
    AFTER_S,
    MAIN,
    POLL_S,
    World,
    aged,
    computes_at_times,
    late_in,
    silent,
    watched,
)

HEALTHY = {
    "compiling": late_in((Frame("compile_fx", f"{SITE}/torch/_inductor/compile_fx.py", 7), MAIN), cpu=1.0),
    "compiling in workers": late_in((Frame("wait", f"{SITE}/torch/_inductor/async_compile.py", 7), MAIN), cpu=0.8),
    "triton": late_in((Frame("make_cubin", f"{SITE}/triton/backends/nvidia/compiler.py", 7), MAIN), cpu=0.8),
    "checkpoint": late_in((Frame("save", f"{SITE}/torch/serialization.py", 7), MAIN), cpu=0.2),
    "own checkpoint": late_in((Frame("save_checkpoint", "/job/train.py", 7), MAIN), cpu=0.2),
    "evaluation on rank 0": late_in(
        (Frame("forward", "/job/model.py", 7), Frame("evaluate", "/job/train.py", 3), MAIN), cpu=0.2
    ),
    "data loader": late_in((Frame("_next_data", f"{SITE}/torch/utils/data/dataloader.py", 7), MAIN), cpu=0.2),
    "breakpoint": late_in((Frame("interaction", "/opt/env/lib/python3.11/pdb.py", 7), MAIN)),
}
"""Phases that advance, which processor time shows; nothing does so at a breakpoint."""


EVALUATES = (Frame("evaluate", "/job/train.py", 3), MAIN)
HEALTHY["evaluation that pauses for 20 s"] = computes_at_times(
    EVALUATES, lambda now: 5 * (now // 25) + min(now % 25, 5)
)

STALLED = {
    "checkpoint": late_in((Frame("save_checkpoint", "/job/train.py", 7), MAIN)),
    "evaluation": late_in((Frame("evaluate", "/job/train.py", 3), MAIN)),
    "data loader": late_in((Frame("_next_data", f"{SITE}/torch/utils/data/dataloader.py", 7), MAIN)),
}
"""The same phases without processor time, data or another place."""


def downloads(moved: Callable[[float], tuple[int, int]], place: str = "recvfrom") -> World:
    """Return ranks of which one is late in a function that reads, which does not compute.

    `moved`: time → bytes that it has read, and waits of its main thread.
    """

    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        views = one_late(4, 0, (Frame("fetch_weights", "/job/train.py", 7), MAIN))
        size, switches = moved(now)
        views[0] = replace(views[0], moved=size, main_switches=switches, syscall=place)
        return [RankSigns(each.rank, 100, 7) for each in views], views

    return world


MOVES = {
    "20 KB/s": downloads(lambda now: (int(20_000 * now), 0)),
    "20 KB/s in a thread": downloads(lambda now: (int(20_000 * now), 0), "futex"),
    "500 bytes/s": downloads(lambda now: (int(500 * now), int(now))),
    "unknown bytes": downloads(lambda now: (0, int(now))),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_rank_that_reads_data_however_slowly_is_not_called_a_hang(name: str) -> None:
    [(at, report)] = watched(MOVES[name], 400)
    assert isinstance(report, HangReport)
    assert not report.finding.is_hang
    assert at > 1.5 * AFTER_S - POLL_S
    assert "rank 0 on n00 is in fetch_weights (train.py:7)" in report.finding.text
    assert report.finding.text.count("reads or writes data") == 1


WAITS = {
    "nothing arrives": downloads(lambda now: (300 << 20, 5)),
    "heartbeats of a library": downloads(lambda now: (int(1000 * now), 0)),
    "a lock with a time limit": downloads(lambda now: (0, int(10 * now)), "futex"),
    "looks for a file ten times per second": downloads(lambda now: (0, int(10 * now)), "clock_nanosleep"),
    "the data has arrived": downloads(lambda now: (int(20_000 * min(now, 20)), int(min(now, 20)))),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_rank_that_waits_for_data_is_named_within_a_minute(name: str) -> None:
    _, report = watched(WAITS[name], 61)[0]
    assert isinstance(report, HangReport)
    assert (report.finding.kind, report.finding.ranks) == (HangKind.LATE, (0,))


@pytest.mark.parametrize("phase", HEALTHY)
def test_a_slow_phase_raises_no_alarm_for_four_minutes(phase: str) -> None:
    assert watched(HEALTHY[phase], 240) == []


@pytest.mark.parametrize("phase", HEALTHY)
def test_a_slow_phase_is_never_called_a_hang(phase: str) -> None:
    assert [
        each for _, each in watched(HEALTHY[phase], 3600) if isinstance(each, HangReport) and each.finding.is_hang
    ] == []


@pytest.mark.parametrize("phase", STALLED)
def test_a_phase_that_shows_no_work_is_slow_within_a_minute_and_never_called_a_hang(phase: str) -> None:
    [(at, report)] = watched(STALLED[phase], 3600)
    assert isinstance(report, HangReport)
    assert (report.finding.is_hang, report.finding.ranks, report.may_end_run) == (False, (0,), False)
    assert report.finding.text.endswith("and neither computes nor moves data")
    assert 45 <= at <= 60


def test_a_phase_that_stops_its_work_in_the_silence_is_slow_within_a_minute_after_that() -> None:
    [(at, report)] = watched(computes_at_times(EVALUATES, lambda now: min(now, 20)), 3600)
    assert isinstance(report, HangReport)
    assert (report.finding.is_hang, report.finding.ranks) == (False, (0,))
    assert report.finding.text.endswith("and neither computes nor moves data")
    assert 20 + 0.8 * AFTER_S <= at <= 20 + 60


def imports_until(at: float, late: World) -> World:
    """Return ranks that import, and are those of `late` from then on: under load, no view shows what is between."""

    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        imports = (Frame("find_spec", "/job/train.py", 1), MAIN)
        early = [replace(view(rank, (), imports, []), cpu_s=now) for rank in range(4)]
        return [], [replace(each, cpu_s=at) for each in late(now)[1]] if now >= at else early

    return world


SLEEPS = (Frame("sleeps", "/job/train.py", 3), MAIN)


@pytest.mark.parametrize(("frames", "is_hang"), [(EVALUATES, False), (SLEEPS, True)])
def test_what_a_rank_did_before_the_last_collective_says_nothing_about_the_silence(
    frames: Sequence[Frame], is_hang: bool
) -> None:
    late = one_late(4, 1, frames)
    at, report = watched(imports_until(40, lambda now: ([], [aged(each, now - 40) for each in late])), 3600)[0]
    assert isinstance(report, HangReport)
    assert (report.finding.is_hang, report.finding.ranks) == (is_hang, (1,))
    assert at <= 40 + 60


def test_the_first_collectives_are_progress_also_where_their_age_is_unknown() -> None:
    late = [view(rank, calls(4, over=rank == 1), IN_ALL_REDUCE, [default_group(4)]) for rank in range(4)]
    late[1] = one_late(4, 1, SLEEPS, number=4)[1]
    at, report = watched(imports_until(70, lambda now: ([], late)), 3600)[0]
    assert isinstance(report, HangReport)
    assert (report.finding.ranks, report.is_exact) == ((1,), False)
    assert 70 + AFTER_S <= at <= 70 + 2 * AFTER_S
    assert report.quiet_s <= at - 70


def test_a_rank_that_computes_in_its_own_code_is_named_within_a_minute_and_not_called_a_hang() -> None:
    [(at, report)] = watched(late_in((Frame("spin", "/job/train.py", 7), MAIN), cpu=1.0), 3600)
    assert isinstance(report, HangReport)
    assert 45 <= at <= 60
    assert (report.finding.is_hang, report.finding.ranks) == (False, (0,))
    assert report.finding.text.endswith("rank 0 on n00 is in spin (train.py:7), and computes")


def test_one_of_two_ranks_that_computes_is_shown_within_a_minute_and_not_named() -> None:
    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        views = one_late(2, 0, (Frame("spin", "/job/train.py", 7), MAIN))
        return [RankSigns(0, 100, 7)], [replace(views[0], cpu_s=now), views[1]]

    [(at, report)] = watched(world, 3600)
    assert isinstance(report, HangReport)
    assert (report.finding.is_hang, report.finding.ranks, at <= 60) == (False, (), True)


def test_ranks_that_compute_while_one_is_ahead_of_them_are_mentioned_late() -> None:
    """The rank that waits has called something that the others may never call."""

    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        groups = [default_group(4)]
        late = [
            view(rank, calls(4, over=True), (Frame("spin", "/job/train.py", 7), MAIN), groups) for rank in (1, 2, 3)
        ]
        views = [view(0, calls(5, over=False), IN_ALL_REDUCE, groups), *(replace(each, cpu_s=now) for each in late)]
        return [RankSigns(0, 100, 7)], views

    assert watched(world, 119) == []


def test_a_rank_that_waits_before_the_first_step_is_slow_at_first_and_a_hang_later() -> None:
    """Downloads and builds take long in healthy runs: only a line says so."""
    found = watched(silent(one_late(4, 2, number=2)), 3600)
    reports = [(at, each.finding) for at, each in found if isinstance(each, HangReport)]
    assert [(each.is_hang, each.ranks) for _, each in reports] == [(False, (2,)), (True, (2,))]
    assert reports[0][0] <= 60
    assert reports[1][0] >= 120


POLLS = [
    (Frame("exists", "/usr/lib/python3.11/genericpath.py", 19), Frame("wait_for", "/job/train.py", 7), MAIN),
    (Frame("wait_for", "/job/train.py", 8), MAIN),
]


def test_a_loop_that_polls_is_at_several_lines_and_a_hang() -> None:
    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        views = one_late(4, 1, POLLS[int(now) % 2])
        views[1] = replace(views[1], cpu_s=now * 0.003)
        return [RankSigns(0, 100, 7)], views

    [(at, report)] = watched(world, 3600)
    assert isinstance(report, HangReport)
    assert (report.finding.is_hang, report.finding.ranks, report.finding.confidence) == (True, (1,), Confidence.MEDIUM)
    assert at <= 60


def test_a_lock_of_an_extensions_build_that_an_interrupted_build_left_behind_is_named() -> None:
    baton = f"{SITE}/torch/utils/file_baton.py"
    compiles = Frame("_jit_compile", f"{SITE}/torch/utils/cpp_extension.py", 2400)
    lines = [
        (Frame("wait", baton, 50), compiles, MAIN),
        (Frame("exists", "/usr/lib/python3.11/genericpath.py", 19), Frame("wait", baton, 49), compiles, MAIN),
    ]

    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        return [RankSigns(0, 100, 7)], one_late(4, 1, lines[int(now) % 2])

    [(at, report)] = watched(world, 3600)
    assert isinstance(report, HangReport)
    assert (report.finding.is_hang, report.finding.ranks, at <= 60) == (True, (1,), True)
    assert "is waiting for the lock file of an extension's build" in report.finding.text
