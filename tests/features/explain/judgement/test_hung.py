"""Runs that hung until a signal to their launcher, or their own watchdog, ended them: where they stood."""

import pytest

from pylaunch.model.diagnosis.confidence import Confidence
from tests.features.explain.judgement.verdicts import first_cause

SIGNAL = (
    "W1128 05:01:44.4 7 torch/api.py:753] Received {} death signal, shutting down workers\n"
    "W1128 05:01:44.4 7 torch/api.py:1028] Sending process 11 closing signal SIGTERM\n"
)
STEP = "step 1 rank 0\nstep 1 rank 1\n"


def interrupted(rank: int, line: int, source: str) -> str:
    frame = f'  File "/srv/train.py", line {line}, in main'
    lines = ("Traceback (most recent call last):", frame, f"    {source}", "KeyboardInterrupt")
    return "".join(f"[rank{rank}]: {each}\n" for each in lines)


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("fcntl.flock(f, fcntl.LOCK_EX)", "data-wait"),
        ("batch = tasks.get()", "rank-absent"),
        ("loss = model(x)", "stopped-from-outside"),
    ],
)
def test_the_only_rank_that_an_interrupt_met_in_a_blocking_call_is_named(source: str, cause: str) -> None:
    found = first_cause(STEP + SIGNAL.format(2) + interrupted(1, 5, source) + interrupted(0, 9, "dist.all_reduce(t)"))
    assert found.cause.id == cause
    assert (found.ranks == (1,)) == (cause != "stopped-from-outside")
    both = interrupted(1, 5, source) + interrupted(0, 5, source)
    assert first_cause(STEP + SIGNAL.format(2) + both).cause.id == "stopped-from-outside", "nobody stands out"


@pytest.mark.parametrize(("last", "cause"), [("", "file-missing"), ("found it\n", "stopped-from-outside")])
def test_a_file_for_which_all_lines_wait_until_the_signal_is_missing(last: str, cause: str) -> None:
    waits = "".join(f"{rank} INFO waiting for /data/v7/_SUCCESS ({at} s)\n" for at in (0, 3) for rank in (0, 1))
    found = first_cause(waits + last + SIGNAL.format(15))
    assert found.cause.id == cause
    assert ("/data/v7/_SUCCESS" in found.text) == (not last)


@pytest.mark.parametrize(("last", "is_over"), [("training finished", True), ("epoch 1 done", False)])
def test_a_process_that_does_not_exit_after_the_end_of_all_ranks(last: str, is_over: bool) -> None:
    dump = 'Thread 0x7f72 (most recent call first):\n  File "/opt/lib/python3.11/queue.py", line 171 in get\n'
    text = f'{STEP}[rank0] {last}\n[rank1] {last}\n{dump}  File "/srv/train.py", line 6 in run\n'
    found = first_cause(text + SIGNAL.format(15))
    assert (found.cause.id == "program-error") == is_over
    assert ("/srv/train.py:6" in found.text) == is_over


@pytest.mark.parametrize(
    ("before", "cause"), [("rank 0 validation batch 8/40\n", "rank0-long-work"), ("", "rank-absent")]
)
def test_the_watchdog_of_a_program_names_the_work_that_it_met(before: str, cause: str) -> None:
    barks = "".join(f"WATCHDOG rank {rank}: no training step for 8 s, aborting process\n" for rank in (1, 0))
    assert first_cause(STEP + before + barks + "exitcode  : 42 (pid: 5)\n").cause.id == cause


@pytest.mark.parametrize(
    "bar",
    ["Class  Images  R  mAP@.5 mAP@.5:.95:  96%|###  | 85/89 [01:07<00:05]", "Packing (num_proc=1):   1%|  | 8/1089"],
)
def test_the_bar_of_a_work_that_the_watchdog_cuts_off_shows_what_the_others_waited_for(bar: str) -> None:
    late = (
        "Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=60000) ran for 69479 "
        "milliseconds before timing out."
    )
    found = first_cause(f"{bar}[E ProcessGroupNCCL.cpp:567] [Rank 1] Watchdog caught\n  what():  [Rank 1] {late}\n")
    assert (found.cause.id, found.confidence) == ("rank0-long-work", Confidence.MEDIUM)
