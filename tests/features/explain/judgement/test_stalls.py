"""Reports of ranks that wait: they name no cause where the programs continue after the last one."""

import pytest

from tests.features.explain.judgement.verdicts import first_cause, verdict_on

STALL = """\
[2026-11-22 09:12:44.101210: W /tmp/horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be \
reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.
Missing ranks:
1: [broadcast.0, broadcast.1 ...]
"""
OLDER = """\
[1,0]<stderr>:One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are \
waiting for remainder of ranks for more than 60 seconds. Stalled ops:grads_1 [missing ranks: 1]
"""
CRASH = (
    'Traceback (most recent call last):\n  File "/app/a.py", line 3, in <module>\nIndexError: list index out of range\n'
)
STEPS = "".join(f"Train Epoch: 1 [{64 * at}/60000] Loss: 2.{at}\n" for at in range(5))


@pytest.mark.parametrize("stall", [STALL, OLDER], ids=["by rank", "by tensor"])
@pytest.mark.parametrize(
    "rest",
    ["Epoch 1/1: loss 0.31\n", "saved model\nall done in 31 s\n", STEPS, "Training finished\n"],
    ids=["one epoch", "an end", "steps", "end of training"],
)
def test_a_stall_after_which_the_ranks_go_on_is_no_cause(stall: str, rest: str) -> None:
    verdict = verdict_on(stall + rest)
    assert verdict.causes == ()
    assert not verdict.failed


@pytest.mark.parametrize("stall", [STALL, OLDER], ids=["by rank", "by tensor"])
def test_a_stall_that_ended_is_no_cause_of_a_later_failure(stall: str) -> None:
    verdict = verdict_on(STEPS + stall + STEPS + CRASH)
    assert [each.cause.id for each in verdict.causes] == ["unexplained"]


@pytest.mark.parametrize(
    "log",
    [STALL, STEPS + STALL, STALL + STEPS + STALL, STALL + STEPS + CRASH],
    ids=["alone", "after steps", "again", "prints that Python may flush at the exit"],
)
def test_a_stall_that_lasts_is_named(log: str) -> None:
    first = first_cause(log)
    assert (first.cause.id, first.ranks) == ("rank-absent", (1,))
