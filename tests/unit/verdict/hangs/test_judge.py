"""Findings on recorded faults of real ranks, and on cases that a laptop cannot show."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangKind
from pylaunch.protocol.examination import Frame, ProcessGroup, RankView
from pylaunch.verdict.hangs.judge import judge_hang
from pylaunch.verdict.hangs.ranks import HangEvidence
from tests.unit.verdict.hangs.views import (
    CASES,
    IN_ALL_REDUCE,
    IN_OPEN,
    SITE,
    brief,
    call,
    calls,
    default_group,
    evidence,
    one_late,
    recorded,
    view,
)

IN_BARRIER = (
    Frame("barrier", f"{SITE}/torch/distributed/distributed_c10d.py", 4000),
    Frame("main", "/job/train.py", 12),
)


GUILTY = {
    "chain_of_groups": (HangKind.LATE, 3),
    "inverse_order": (HangKind.GROUP_ORDER, 1),
    "is_stopped": (HangKind.STOPPED, 1),
    "loads_data": (HangKind.LATE, 1),
    "no_barrier": (HangKind.LATE, 1),
    "opens_file": (HangKind.LATE, 1),
    "other_operation": (HangKind.OTHER_CALL, 1),
    "rank_0_deviates": (HangKind.OTHER_CALL, 0),
    "reads_terminal": (HangKind.LATE, 0),
    "skips_and_continues": (HangKind.OTHER_PLACE, 1),
    "skips_and_waits": (HangKind.LATE, 1),
    "starts_asynchronous": (HangKind.LATE, 1),
}
UNDECIDABLE = {"pair_differs": HangKind.OTHER_CALL, "receives_in_circle": HangKind.TRANSPORT}


def test_every_recording_is_judged_here() -> None:
    assert {path.stem for path in CASES.glob("*.json")} == {*GUILTY, *UNDECIDABLE, "is_healthy"}


@pytest.mark.parametrize("name", GUILTY)
def test_the_rank_at_fault_is_named_and_no_victim(name: str) -> None:
    kind, rank = GUILTY[name]
    best, *others = judge_hang(recorded(name))
    assert (best.kind, best.ranks, best.hosts) == (kind, (rank,), (f"n{rank + 1}",)), best.text
    assert {each for finding in others for each in finding.ranks} <= {rank}


@pytest.mark.parametrize("name", UNDECIDABLE)
def test_nobody_is_named_where_both_sides_look_alike(name: str) -> None:
    findings = judge_hang(recorded(name))
    assert findings[0].kind is UNDECIDABLE[name]
    assert {rank for finding in findings for rank in finding.ranks} == set()


def test_a_skipped_call_is_shown_at_its_place_though_the_run_stopped_later() -> None:
    best = judge_hang(recorded("skips_and_continues"))[0]
    assert "rank 1 on n2 skipped all_reduce #4 of the default group in reduce_loss (train.py:76)" in best.text


def test_the_line_counts_many_ranks_and_names_the_late_one() -> None:
    best = judge_hang(evidence(one_late(64, 37)))[0]
    assert best.text == (
        "ranks 0-36,38-63 wait in all_reduce #412 of dp; "
        "rank 37 on n37 is in load (data.py:88), in open (pathlib.py:1044)"
    )
    assert best.confidence is Confidence.HIGH
    assert best.hint == "pylaunch stacks 7f3a --rank 37"
    assert best.evidence[0].startswith("ranks 0-36,38-63 on n[00-36,38-63]: all_reduce #412 of dp is pending")


def test_two_ranks_and_half_of_eight_name_nobody() -> None:
    best = judge_hang(evidence(one_late(2, 1)))[0]
    assert (best.ranks, best.confidence) == ((), Confidence.HIGH), "all stand still"
    assert "rank 1 on n01 is in load" in best.text
    assert judge_hang(evidence([each for each in one_late(8, 3) if each.rank < 4], world=8))[0].ranks == ()


def test_a_rank_that_waits_after_the_others_left_made_an_extra_call() -> None:
    groups = [default_group(4)]
    waits = view(0, calls(5, over=False), IN_ALL_REDUCE, groups)
    asked = replace(evidence([waits], world=4), ended=dict.fromkeys((1, 2, 3), "exited with code 0"))
    best = judge_hang(asked)[0]
    assert (best.kind, best.ranks, best.confidence) == (HangKind.EXTRA_CALL, (), Confidence.HIGH)
    assert "`if rank == 0`" in best.hint


def test_a_rank_that_left_is_named_while_the_others_wait_for_it() -> None:
    views = [each for each in one_late(4, 2) if each.rank != 2]
    best = judge_hang(replace(evidence(views, world=4), ended={2: "exited with code 0"}))[0]
    assert (best.kind, best.ranks) == (HangKind.ENDED, (2,))
    assert best.text == "rank 2 on n02 exited with code 0; ranks 0-1,3 wait in all_reduce #412 of dp"


def test_a_rank_that_ended_is_not_named_for_calls_of_groups_without_it() -> None:
    groups = [default_group(4), ProcessGroup("1", "tp", (0, 1, 2))]
    waits = [view(rank, calls(5, over=False, group="1"), IN_ALL_REDUCE, groups) for rank in (0, 2)]
    saves = view(1, calls(4, over=True, group="1"), IN_OPEN, groups)
    found = judge_hang(replace(evidence([waits[0], saves, waits[1]], world=4), ended={3: "exited with code 0"}))
    assert [(each.kind, each.ranks) for each in found] == [(HangKind.LATE, (1,))]


def test_all_ranks_in_one_call_point_at_the_network_and_name_nobody() -> None:
    groups = [default_group(4)]
    views = [view(rank, calls(9, over=False), IN_ALL_REDUCE, groups) for rank in range(4)]
    best = judge_hang(evidence(views))[0]
    assert (best.kind, best.ranks) == (HangKind.TRANSPORT, ())
    assert (
        best.text
        == "ranks 0-3 wait in all_reduce #9 of the default group, which all ranks called: look at network and GPUs"
    )


def test_a_rank_that_waits_in_a_call_that_the_others_finished_is_a_victim_of_the_network() -> None:
    groups = [default_group(4)]
    ahead = [view(rank, calls(10, over=False), IN_ALL_REDUCE, groups) for rank in range(3)]
    best = judge_hang(evidence([*ahead, view(3, calls(9, over=False), IN_ALL_REDUCE, groups)]))[0]
    assert (best.kind, best.ranks, best.hosts) == (HangKind.TRANSPORT, (), ())
    assert best.text == (
        "ranks 0-2 wait in all_reduce #10 of the default group (1 more pending call); rank 3 on n03 is in train_step "
        "(train.py:71), in all_reduce (distributed_c10d.py:3252), which all ranks called: look at network and GPUs"
    )


def test_a_call_that_not_all_ranks_report_is_no_transport_fault() -> None:
    groups = [default_group(4)]
    views = [view(rank, calls(9, over=False), IN_ALL_REDUCE, groups) for rank in range(3)]
    assert judge_hang(evidence(views, world=4))[0].kind is not HangKind.TRANSPORT


def test_a_rank_whose_interpreter_is_held_is_named_from_its_stack() -> None:
    views = one_late(4, 1)
    views[1] = replace(views[1], source="signal", groups=(), collectives=())
    best = judge_hang(evidence(views))[0]
    assert (best.kind, best.ranks, best.confidence) == (HangKind.INTERPRETER_HELD, (1,), Confidence.HIGH)


@pytest.mark.parametrize("seen", [{"wchan": "hrtimer_nanosleep"}, {"threads": ()}], ids=["sleeps", "no stack"])
def test_a_rank_whose_interpreter_is_held_ends_no_run_unless_it_is_seen_to_stand_still(seen: dict[str, Any]) -> None:
    views = one_late(4, 1)
    views[1] = replace(views[1], source="signal", groups=(), collectives=(), **seen)
    best = judge_hang(evidence(views))[0]
    assert (best.kind, best.confidence) == (HangKind.INTERPRETER_HELD, Confidence.MEDIUM)


def test_a_rank_whose_interpreter_is_held_and_that_has_computed_is_slow_and_ends_no_run() -> None:
    views = one_late(4, 1)
    views[1] = replace(views[1], source="signal", groups=(), collectives=())
    samples = tuple(
        tuple(replace(each, time=each.time + at, cpu_s=each.cpu_s + (4 if at else 0)) for each in views)
        for at in (0, 5, 10, 15)
    )
    best = judge_hang(HangEvidence("7f3a", {rank: f"n{rank:02}" for rank in range(4)}, samples, after_s=10))[0]
    assert (best.kind, best.ranks, best.confidence) == (HangKind.BUSY, (1,), Confidence.MEDIUM)


def test_a_rank_that_answers_from_a_call_of_an_unknown_group_is_not_said_to_be_silent() -> None:
    views = one_late(4, 1)
    views[1] = view(1, (), IN_ALL_REDUCE, [])
    best = judge_hang(evidence(views))[0]
    assert (best.ranks, "rank 1 on n01 shows no call of that group: is in train_step" in best.text) == ((), True)


def test_a_rank_that_shows_nothing_is_not_named() -> None:
    views = one_late(4, 1)
    views[1] = replace(views[1], source="", note="no answer in 0.5 s", threads=(), groups=(), collectives=())
    findings = judge_hang(evidence(views))
    assert [finding.ranks for finding in findings] == [()]


def test_a_rank_that_computes_and_shows_nothing_is_not_named() -> None:
    views = one_late(4, 1)
    views[1] = replace(views[1], source="", note="no answer in 0.5 s", threads=(), groups=(), collectives=())
    first, second = evidence(views).samples
    busy = (second[0], replace(second[1], cpu_s=second[1].cpu_s + 4), *second[2:])
    found = judge_hang(HangEvidence("7f3a", {rank: f"n{rank:02}" for rank in range(4)}, (first, busy)))
    assert [finding.ranks for finding in found] == [()]


def test_a_rank_that_was_seen_once_in_a_wait_for_a_disk_ends_no_run() -> None:
    views = one_late(4, 2)
    views[2] = replace(views[2], state="D")
    first, second = (asked := evidence(views)).samples
    best = judge_hang(replace(asked, samples=(tuple(each for each in first if each.rank != 2), second)))[0]
    assert (best.kind, best.confidence) == (HangKind.DISK_WAIT, Confidence.MEDIUM)


def test_a_wait_for_a_disk_in_every_sample_is_named() -> None:
    views = one_late(4, 2)
    views[2] = replace(views[2], state="D")
    best = judge_hang(evidence(views))[0]
    assert (best.kind, best.ranks, best.confidence) == (HangKind.DISK_WAIT, (2,), Confidence.HIGH)


def test_a_rank_in_the_kernel_that_waits_like_the_others_is_not_named_for_it() -> None:
    views = one_late(4, 2)
    views[0] = replace(views[0], state="D")
    assert judge_hang(evidence(views))[0].ranks == (2,)


def test_a_silent_node_is_shown_and_no_rank_is_named() -> None:
    views = [each for each in one_late(4, 3) if each.rank < 3]
    best = judge_hang(replace(evidence(views, world=4), silent_hosts={"n03": "no heartbeat for 10 s"}))[0]
    assert (best.kind, best.ranks, best.hosts) == (HangKind.NODE_SILENT, (), ("n03",))


def test_a_late_rank_that_computes_works() -> None:
    first, second = evidence(one_late(4, 1)).samples
    busy = replace(second[1], cpu_s=second[1].cpu_s + 4.9)
    both = HangEvidence("7f3a", {rank: f"n{rank:02}" for rank in range(4)}, (first, (second[0], busy, *second[2:])))
    best = judge_hang(both)[0]
    assert best.kind is HangKind.BUSY
    assert not best.is_hang


def test_a_breakpoint_is_shown_as_one() -> None:
    frames = (Frame("interaction", "/opt/env/lib/python3.11/pdb.py", 345), Frame("main", "/job/train.py", 9))
    best = judge_hang(evidence(one_late(4, 1, frames)))[0]
    assert "is at a breakpoint of a debugger" in best.text
    assert not best.is_hang


def test_a_tie_of_operations_names_nobody() -> None:
    groups = [default_group(4)]
    made = [
        calls(4, over=False) if rank < 2 else (*calls(3, over=True), call(4, "broadcast", over=False))
        for rank in range(4)
    ]
    best = judge_hang(evidence([view(rank, each, IN_ALL_REDUCE, groups) for rank, each in enumerate(made)]))[0]
    assert (best.kind, best.ranks) == (HangKind.OTHER_CALL, ())


@pytest.mark.parametrize("late", [{0}, {1}, {0, 2}])
@pytest.mark.parametrize("name", ["no_barrier", "opens_file", "starts_asynchronous"])
def test_ranks_without_the_operations_of_their_calls_are_not_accused_of_other_ones(name: str, late: set[int]) -> None:
    """On a busy machine, some ranks answer the request for all calls too late: only their last number is known."""
    found = recorded(name)
    samples = tuple(tuple(brief(each) if each.rank in late else each for each in sample) for sample in found.samples)
    for finding in judge_hang(replace(found, samples=samples)):
        assert finding.kind is not HangKind.OTHER_CALL, finding.text
        assert {*finding.ranks} <= {GUILTY[name][1]}


def test_sizes_of_all_to_all_may_differ() -> None:
    groups = [default_group(3)]
    made = [(call(4, "all_to_all", over=False, size=rank),) for rank in range(3)]
    best = judge_hang(evidence([view(rank, each, IN_ALL_REDUCE, groups) for rank, each in enumerate(made)]))[0]
    assert best.kind is HangKind.TRANSPORT


def test_groups_of_one_name_and_other_ranks_are_kept_apart() -> None:
    pairs = [ProcessGroup("7", "tp", (0, 1)), ProcessGroup("7", "tp", (2, 3))]
    made = [
        calls(9, over=False, group="7"),
        calls(8, over=True, group="7"),
        calls(3, over=True, group="7"),
        calls(3, over=True, group="7"),
    ]
    frames = [IN_ALL_REDUCE, IN_OPEN, IN_OPEN, IN_OPEN]
    views = [view(rank, made[rank], frames[rank], [pairs[rank // 2]]) for rank in range(4)]
    assert judge_hang(evidence(views))[0].text.startswith(
        "rank 0 on n00 waits in all_reduce #9 of tp; rank 1 on n01 is in load"
    )


def test_a_rank_with_unfinished_asynchronous_calls_is_not_accused_of_another_order() -> None:
    groups = [default_group(3), ProcessGroup("1", "tp", (0, 1, 2))]
    outside = (Frame("main", "/job/train.py", 50),)
    views = [
        view(0, calls(2, over=False), IN_ALL_REDUCE, groups),
        view(1, calls(2, over=False, group="1"), outside, groups),
        view(2, calls(2, over=False), IN_ALL_REDUCE, groups),
    ]
    assert judge_hang(evidence(views))[0].ranks == ()


def test_without_a_flight_recorder_the_stacks_decide() -> None:
    views = [replace(each, groups=(), collectives=()) for each in one_late(4, 3)]
    best = judge_hang(evidence(views))[0]
    assert (best.kind, best.ranks, best.confidence) == (HangKind.LATE, (3,), Confidence.HIGH)
    assert best.text.startswith("ranks 0-2 wait in all_reduce; rank 3 on n03 is in load")


JAX = f"{SITE}/jax/experimental/multihost_utils.py"
IN_ALLGATHER = (
    Frame("_handle_array_process_allgather", JAX, 134),
    Frame("process_allgather", JAX, 190),
    Frame("train_step", "/job/train.py", 71),
)


def test_a_jax_rank_that_is_not_in_the_joint_call_is_named() -> None:
    waits = (Frame("wait_for_cache", "/job/train.py", 9),)
    best = judge_hang(evidence([view(rank, (), waits if rank == 2 else IN_ALLGATHER, []) for rank in range(3)]))[0]
    assert (best.kind, best.ranks, best.confidence) == (HangKind.LATE, (2,), Confidence.HIGH)
    assert best.text == "ranks 0-1 wait in process_allgather; rank 2 on n02 is in wait_for_cache (train.py:9)"


def test_plain_programs_in_different_places_are_shown_and_nobody_is_named() -> None:
    frames = [
        (Frame("receive", "/job/train.py", 5),),
        (Frame("take", "/job/train.py", 9),),
        (Frame("receive", "/job/train.py", 5),),
    ]
    best = judge_hang(evidence([view(rank, (), frames[rank], []) for rank in range(3)]))[0]
    assert (best.kind, best.ranks) == (HangKind.STUCK, ())
    assert best.text == (
        "no rank computes or changes its place: "
        "rank 1 on n01 is in take (train.py:9); ranks 0,2 are in receive (train.py:5)"
    )


def test_plain_programs_that_sleep_for_a_chosen_time_or_compute_are_no_hang() -> None:
    frames = (Frame("main", "/job/train.py", 5),)
    asleep = [replace(view(rank, (), frames, []), wchan="hrtimer_nanosleep") for rank in range(3)]
    assert not judge_hang(evidence(asleep))[0].is_hang
    seen = evidence(asleep)
    awake = tuple(replace(each, wchan="") for each in seen.samples[1])  # At the end of one sleep, before the next.
    assert not judge_hang(replace(seen, samples=(seen.samples[0], awake)))[0].is_hang
    first, second = evidence([view(rank, (), frames, []) for rank in range(3)]).samples
    busy = (second[0], replace(second[1], cpu_s=second[1].cpu_s + 4), second[2])
    assert not judge_hang(HangEvidence("7f3a", {0: "n00", 1: "n01", 2: "n02"}, (first, busy)))[0].is_hang


def test_a_rank_that_waits_for_a_processor_of_a_busy_machine_is_no_hang() -> None:
    waits, computes = (view(rank, (), (Frame(name, "/job/train.py", 5),), []) for rank, name in enumerate("wc"))
    assert judge_hang(evidence([waits, computes]))[0].is_hang
    assert not judge_hang(evidence([waits, replace(computes, state="R")]))[0].is_hang


def test_views_of_nearly_one_moment_show_no_standstill() -> None:
    seen = evidence([view(rank, (), (Frame("take", "/job/train.py", 9),), []) for rank in range(2)])
    assert judge_hang(replace(seen, after_s=10.0))[0].is_hang
    assert not judge_hang(replace(seen, after_s=60.0))[0].is_hang


@given(st.integers(3, 40), st.data())
def test_only_the_late_ranks_are_ever_named(world: int, data: st.DataObject) -> None:
    late = data.draw(st.sets(st.integers(0, world - 1), min_size=1, max_size=world - 1))
    answered = data.draw(st.sets(st.integers(0, world - 1), min_size=1))
    groups = [default_group(world)]
    views = [
        view(rank, calls(7, over=True), IN_OPEN, groups)
        if rank in late
        else view(rank, calls(8, over=False), IN_ALL_REDUCE, groups)
        for rank in sorted(answered)
    ]
    for finding in judge_hang(evidence(views, world)):
        assert {*finding.ranks} <= late & answered
        if 2 * len(answered) <= world:
            assert finding.ranks == ()


@given(st.permutations(range(4)), st.sampled_from(sorted({*GUILTY} - {"chain_of_groups"})))
def test_the_order_of_the_answers_does_not_matter(order: list[int], name: str) -> None:
    asked = recorded(name)
    shuffled: tuple[tuple[RankView, ...], ...] = tuple(
        tuple(sample[index] for index in order if index < len(sample)) for sample in asked.samples
    )
    assert judge_hang(replace(asked, samples=shuffled)) == judge_hang(asked)


def test_a_rank_whose_exception_waits_for_a_barrier_in_a_finally_is_the_cause() -> None:
    views = one_late(4, 2, IN_BARRIER)
    views[2] = replace(views[2], handles="ValueError: bad batch (train.py:9)")
    best = judge_hang(evidence(views))[0]
    assert best.ranks == (2,)
    assert best.text.startswith("rank 2 on n02 had ValueError: bad batch (train.py:9) before, and waits while it")
    every = [replace(each, handles="StopIteration (train.py:3)") for each in views]
    assert "StopIteration" not in judge_hang(evidence(every))[0].text, "all ranks do it"
