"""Alarms come in time for hangs, and never for slow phases of healthy runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch.explain.hangs.judge import judge
from pylaunch.explain.hangs.snapshot import HangEvidence
from pylaunch.explain.hangs.suspicion import HangReport, ProgressResumed, Suspicion
from pylaunch.model.confidence import Confidence
from pylaunch.model.hang import HangKind, RankActivity
from pylaunch.model.rank_view import Frame, RankView
from tests.unit.explain.hangs.views import IN_ALL_REDUCE, SITE, brief, calls, default_group, one_late, recorded, view

AFTER_S = 30.0
POLL_S = 1.0

World = Callable[[float], tuple[Sequence[RankActivity], Sequence[RankView]]]
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
            state, report = state.judged(now, judge(HangEvidence("7f3a", hosts, state.samples))[0])
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
        [RankActivity(each.rank, 100, each.step) for each in views],
        [aged(each, now) for each in views],
    )


def after_start(world: World, at: float) -> World:
    """Return ranks that write a line every second until `at`."""
    return lambda now: ([RankActivity(0, int(min(now, at)))], world(now)[1])


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
    assert (starting.may_end_run, settled.may_end_run) == (False, True)


def test_the_same_finding_is_reported_once() -> None:
    views = [replace(each, step=7) for each in one_late(8, 3)]
    assert len(watched(silent(views), 3600)) == 1


def test_a_changed_finding_is_reported_again() -> None:
    first, second = one_late(8, 3), one_late(8, 3)
    second[3] = replace(second[3], state="T")

    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        views = first if now < 100 else second
        return [RankActivity(each.rank, 100, 7) for each in views], views

    assert [each.finding.kind for _, each in watched(world, 300) if isinstance(each, HangReport)] == [
        HangKind.LATE,
        HangKind.STOPPED,
    ]


def test_ranks_that_wait_for_each_other_are_a_hang_though_they_did_something_else_at_the_first_look() -> None:
    """Without collectives or steps, the first look after the last output finds ranks that prepare their data."""
    prepares, waits = (Frame("prepare", "/job/train.py", 3), MAIN), (Frame("wait_for_peers", "/job/train.py", 5), MAIN)

    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        views = [replace(view(rank, (), prepares if now < 20 else waits, []), step=7) for rank in range(3)]
        return [RankActivity(each.rank, 100, 7) for each in views], views

    [(at, report)] = watched(world, 3600)
    assert isinstance(report, HangReport)
    assert (report.finding.kind, at <= 6 * AFTER_S) == (HangKind.STUCK, True)


def waits_since(began: float, *, has_ages: bool) -> World:
    """Return ranks that call a collective every second and write nothing, until one is late at `began`."""

    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        last = min(now, began)
        views = one_late(4, 1, number=100 + int(last))
        return [], [aged(each, now - last) for each in views] if has_ages else views

    return world


def test_the_time_without_progress_is_that_of_the_collective_where_the_ranks_know_it() -> None:
    """The first views, at 15 s, do not show that the ranks advanced until 13 s."""
    [(at, report)] = watched(waits_since(13, has_ages=True), 120)
    assert isinstance(report, HangReport)
    assert (at, report.quiet_s, report.is_exact) == (43, 30, True)


def test_a_collective_that_began_before_the_views_that_showed_progress_counts_from_its_begin() -> None:
    [(at, report)] = watched(waits_since(40, has_ages=True), 120)
    assert isinstance(report, HangReport)
    assert (at, report.quiet_s, report.is_exact) == (70, 30, True)


def test_without_the_age_of_a_collective_the_time_is_that_since_the_first_views() -> None:
    [(at, report)] = watched(waits_since(13, has_ages=False), 120)
    assert isinstance(report, HangReport)
    assert (at, report.quiet_s, report.is_exact) == (30, 15, False)


def test_output_is_progress_also_after_the_last_collective() -> None:
    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        return [RankActivity(0, int(min(now, 50)))], waits_since(5, has_ages=True)(now)[1]

    [(at, report)] = watched(world, 120)
    assert isinstance(report, HangReport)
    assert (at, report.quiet_s) == (80, 30)


def test_output_after_a_report_is_reported_as_progress() -> None:
    views = [replace(each, step=7) for each in one_late(8, 3)]

    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        return [RankActivity(0, 100 if now < 100 else 200, 7)], views

    found = watched(world, 110)
    assert [type(each) for _, each in found] == [HangReport, ProgressResumed]
    assert found[1][0] == 100


def test_collectives_that_advance_between_two_views_are_progress() -> None:
    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        number = 10 + int(now / 20)
        return [], [view(rank, calls(number, over=False), IN_ALL_REDUCE, [default_group(4)]) for rank in range(4)]

    assert watched(world, 3600) == []


def late_in(frames: Sequence[Frame], *, cpu: float = 0.0) -> World:
    """Return ranks of which one is late in `frames`, and uses this share of a core."""

    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        views = one_late(4, 0, frames)
        views[0] = replace(views[0], cpu_s=now * cpu)
        return [RankActivity(each.rank, 100, 7) for each in views], views

    return world


MAIN = Frame("main", "/job/train.py", 9)
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

    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        views = one_late(4, 0, (Frame("fetch_weights", "/job/train.py", 7), MAIN))
        size, switches = moved(now)
        views[0] = replace(views[0], moved=size, main_switches=switches, syscall=place)
        return [RankActivity(each.rank, 100, 7) for each in views], views

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
    assert "reads or writes data" in report.finding.text


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


def test_a_rank_that_computes_in_its_own_code_is_named_within_a_minute_and_not_called_a_hang() -> None:
    [(at, report)] = watched(late_in((Frame("spin", "/job/train.py", 7), MAIN), cpu=1.0), 3600)
    assert isinstance(report, HangReport)
    assert 45 <= at <= 60
    assert (report.finding.is_hang, report.finding.ranks) == (False, (0,))
    assert report.finding.text.endswith("rank 0 on n00 is in spin (train.py:7), and computes")


def test_one_of_two_ranks_that_computes_is_shown_within_a_minute_and_not_named() -> None:
    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        views = one_late(2, 0, (Frame("spin", "/job/train.py", 7), MAIN))
        return [RankActivity(0, 100, 7)], [replace(views[0], cpu_s=now), views[1]]

    [(at, report)] = watched(world, 3600)
    assert isinstance(report, HangReport)
    assert (report.finding.is_hang, report.finding.ranks, at <= 60) == (False, (), True)


def test_ranks_that_compute_while_one_is_ahead_of_them_are_mentioned_late() -> None:
    """The rank that waits has called something that the others may never call."""

    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        groups = [default_group(4)]
        late = [
            view(rank, calls(4, over=True), (Frame("spin", "/job/train.py", 7), MAIN), groups) for rank in (1, 2, 3)
        ]
        views = [view(0, calls(5, over=False), IN_ALL_REDUCE, groups), *(replace(each, cpu_s=now) for each in late)]
        return [RankActivity(0, 100, 7)], views

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
    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        views = one_late(4, 1, POLLS[int(now) % 2])
        views[1] = replace(views[1], cpu_s=now * 0.003)
        return [RankActivity(0, 100, 7)], views

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

    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        return [RankActivity(0, 100, 7)], one_late(4, 1, lines[int(now) % 2])

    [(at, report)] = watched(world, 3600)
    assert isinstance(report, HangReport)
    assert (report.finding.is_hang, report.finding.ranks, at <= 60) == (True, (1,), True)
    assert "is waiting for the lock file of an extension's build" in report.finding.text


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

    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        nonlocal asked
        asked += now % 15 == 0
        older = [aged(each, now) for each in views]
        return [RankActivity(0, 100, 7)], without(older, rank) if asked % 2 == 0 else older

    reports = [(at, each.finding) for at, each in watched(world, 300) if isinstance(each, HangReport)]
    assert {each.is_hang for _, each in reports} == {True}
    assert {each.ranks for _, each in reports} == {judge(recorded(name))[0].ranks}
    assert reports[0][0] <= 61


def test_calls_that_were_seen_once_are_kept_while_their_rank_answers_late() -> None:
    whole = without_ages("skips_and_continues")

    def at(now: float, views: Sequence[RankView]) -> tuple[RankView, ...]:
        return tuple(replace(each, time=now) for each in views)

    state = Suspicion(AFTER_S, 0.0).with_views(15.0, at(15, list(map(brief, whole))))
    state = state.with_views(30.0, at(30, list(map(brief, whole)))).with_all_calls(30.0, at(30, without(whole, 2)))
    assert state.wants_calls, "rank 2 was late"
    state = state.with_views(45.0, at(45, without(list(map(brief, whole)), 0))).with_all_calls(45.0, at(45, whole))
    state = state.with_views(60.0, at(60, list(map(brief, whole))))
    assert not state.wants_calls
    assert (
        judge(HangEvidence("7f3a", {each.rank: each.host for each in whole}, state.samples))[0].kind
        is HangKind.OTHER_PLACE
    )


def test_the_slow_start_of_a_run_is_not_its_rhythm() -> None:
    """Under load, ranks print some lines and import for a minute, twice."""

    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        lines = sum(now >= at for at in (1, 2, 3, 4, 5, 6, 66, 126, *range(127, 147)))
        imports = [replace(view(rank, (), (MAIN,), []), cpu_s=now) for rank in range(4)]
        views = imports if now < 126 else one_late(4, 1)
        return [RankActivity(0, lines)], views

    found = [
        (at, each) for at, each in watched(world, 230) if isinstance(each, HangReport) and each.finding.ranks == (1,)
    ]
    assert [at - 146 <= 60 for at, _ in found] == [True]


def test_progress_that_only_views_show_makes_no_rhythm() -> None:
    state = Suspicion(AFTER_S, 0.0)
    for number in range(1, 20):
        now = number * 17.0  # A busy machine views late.
        state = viewed(
            state,
            now,
            [view(rank, calls(30 + number, over=False), IN_ALL_REDUCE, [default_group(4)]) for rank in range(4)],
        )
    assert state.gaps[1] == 0


def test_imports_and_downloads_before_the_first_step_get_more_time() -> None:
    waiting = (Frame("init_process_group", f"{SITE}/torch/distributed/distributed_c10d.py", 1), MAIN)
    views = [view(rank, (), waiting if rank else (Frame("download", "/job/data.py", 3), MAIN), []) for rank in range(4)]
    assert watched(silent(views), 119) == []
    assert len(watched(silent(views), 240)) == 1


def test_a_run_with_rare_signs_of_progress_gets_more_time() -> None:
    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        in_data = now % 50 < 45
        views = (
            one_late(4, 1, number=5)
            if in_data
            else [view(r, calls(5, over=True), (MAIN,), [default_group(4)]) for r in range(4)]
        )
        return [RankActivity(0, 100, int(now / 50))], views

    assert watched(world, 3600) == []


@given(st.lists(st.floats(1, 29), min_size=1, max_size=60), st.sampled_from(["out", "step"]))
def test_progress_in_every_gap_raises_no_alarm(gaps: list[float], sign: str) -> None:
    times = [sum(gaps[:count]) for count in range(len(gaps) + 1)]

    def world(now: float) -> tuple[Sequence[RankActivity], Sequence[RankView]]:
        count = sum(time <= now for time in times)
        views = one_late(8, 5)
        return [RankActivity(2, count if sign == "out" else 0, count if sign == "step" else None)], views

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
    return state.judged(now, judge(HangEvidence("7f3a", hosts, state.samples, ends))[0])[1]


@pytest.mark.parametrize("letter", ["Z", "X", ""])
def test_ranks_that_finish_one_after_the_other_are_no_hang(letter: str) -> None:
    """Rank 0 evaluated for long, ranks 1 to 3 have ended, and rank 0 is seen while it ends."""
    views = [replace(each, step=7) for each in one_late(4, 0)]
    state = viewed(viewed(Suspicion(AFTER_S, 0.0), 15, views), 30, views)
    dying = [replace(views[0], state=letter, threads=(), groups=(), collectives=())]
    assert reported(viewed(state, 45, dying), 45, [1, 2, 3]) is None
    assert reported(viewed(state.with_over(44, [1, 2, 3]), 45, views[:1]), 45, [1, 2, 3]) is None


def test_a_process_that_stays_a_zombie_is_reported() -> None:
    views = [replace(each, step=7) for each in one_late(8, 3)]
    views[3] = replace(views[3], state="Z", threads=(), groups=(), collectives=())
    [(at, report)] = watched(silent(views), 300)
    assert isinstance(report, HangReport)
    assert at <= 90


def test_the_end_of_a_rank_after_a_report_is_no_news_of_progress() -> None:
    views = [replace(each, step=7) for each in one_late(8, 3)]
    before = viewed(viewed(Suspicion(AFTER_S, 0.0), 15, views), 30, views)
    before, report = before.judged(30, judge(HangEvidence("7f3a", dict.fromkeys(range(8), "n1"), before.samples))[0])
    assert report is not None
    assert before.with_over(40, [5]).resumed(before) is None


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
    best = judge(HangEvidence("7f3a", {each.rank: each.host for each in whole}, state.samples))[0]
    assert (best.kind, best.ranks) == (HangKind.LATE, (3,))
    assert "all_reduce #412 of dp" in best.text
