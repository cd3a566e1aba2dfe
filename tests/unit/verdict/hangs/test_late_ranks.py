"""Ranks for which others wait are named in time: as slow while they work, as a hang if they do not."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangKind
from pylaunch.protocol.examination import Frame, RankView
from pylaunch.protocol.progress import RankSigns
from pylaunch.verdict.hangs.suspicion import HangReport
from tests.unit.verdict.hangs.views import SITE, one_late
from tests.unit.verdict.hangs.watched_runs import (
    AFTER_S,
    MAIN,
    POLL_S,
    World,
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
    "the data has arrived": downloads(lambda now: (int(20_000 * min(now, 20)), int(min(now, 20)))),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_rank_that_waits_for_data_is_named_within_a_minute(name: str) -> None:
    _, report = watched(WAITS[name], 61)[0]
    assert isinstance(report, HangReport)
    assert (report.finding.kind, report.finding.ranks) == (HangKind.LATE, (0,))


@pytest.mark.parametrize("phase", HEALTHY)
def test_a_slow_phase_is_not_mentioned_for_two_minutes(phase: str) -> None:
    assert watched(HEALTHY[phase], 4 * AFTER_S - POLL_S) == []


@pytest.mark.parametrize("phase", HEALTHY)
def test_a_slow_phase_is_never_called_a_hang(phase: str) -> None:
    assert [
        each for _, each in watched(HEALTHY[phase], 3600) if isinstance(each, HangReport) and each.finding.is_hang
    ] == []


def test_a_rank_that_stands_still_is_named_and_a_hang_whatever_its_function_is_called() -> None:
    [(at, report)] = watched(late_in((Frame("save_checkpoint", "/job/train.py", 7), MAIN)), 3600)
    assert isinstance(report, HangReport)
    assert (report.finding.kind, report.finding.ranks, report.finding.confidence) == (
        HangKind.LATE, (0,), Confidence.HIGH,
    )  # fmt: skip
    assert at <= AFTER_S + POLL_S


def test_a_rank_that_computes_is_named_after_four_times_the_limit_and_not_called_a_hang() -> None:
    [(at, report)] = watched(late_in((Frame("spin", "/job/train.py", 7), MAIN), cpu=1.0), 3600)
    assert isinstance(report, HangReport)
    assert 4 * AFTER_S - POLL_S < at <= 5 * AFTER_S
    assert (report.finding.is_hang, report.finding.ranks) == (False, (0,))
    assert report.finding.text.endswith("rank 0 on n00 is in spin (train.py:7), and computes")


def test_one_of_two_ranks_that_computes_is_shown_and_not_named() -> None:
    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        views = one_late(2, 0, (Frame("spin", "/job/train.py", 7), MAIN))
        return [RankSigns(0, 100, 7)], [replace(views[0], cpu_s=now), views[1]]

    [(_, report)] = watched(world, 3600)
    assert isinstance(report, HangReport)
    assert (report.finding.is_hang, report.finding.ranks) == (False, ())


def test_a_rank_that_stands_still_before_the_first_step_gets_four_times_as_long_and_ends_no_run() -> None:
    """Downloads and builds take long in healthy runs."""
    [(at, report)] = watched(silent(one_late(4, 2, number=2)), 3600)
    assert isinstance(report, HangReport)
    assert (report.finding.is_hang, report.finding.ranks, report.finding.confidence) == (
        True, (2,), Confidence.MEDIUM,
    )  # fmt: skip
    assert at >= 4 * AFTER_S


POLLS = [
    (Frame("exists", "/usr/lib/python3.11/genericpath.py", 19), Frame("wait_for", "/job/train.py", 7), MAIN),
    (Frame("wait_for", "/job/train.py", 8), MAIN),
]


def test_a_rank_that_looks_for_a_file_is_named_and_no_hang_because_another_program_may_write_it() -> None:
    def world(now: float) -> tuple[Sequence[RankSigns], Sequence[RankView]]:
        views = one_late(4, 1, POLLS[int(now) % 2])
        views[1] = replace(views[1], cpu_s=now * 0.003)
        return [RankSigns(0, 100, 7)], views

    [(at, report)] = watched(world, 3600)
    assert isinstance(report, HangReport)
    assert (report.finding.is_hang, report.finding.ranks, report.finding.confidence) == (False, (1,), Confidence.MEDIUM)
    assert at <= 5 * AFTER_S
