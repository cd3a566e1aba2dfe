"""Causes that a reader would miss if an earlier error, a victim or a warning were taken for them."""

import pytest

from pylaunch.features.explain.judgement.verdict import LogVerdict
from pylaunch.verdict.logs.line import Origin
from tests.features.explain.judgement.verdicts import scanned, verdict_of

STEPS = "".join(f"step {step} of rank 0 loss=2.1\n" for step in range(1, 7))
TRACEBACK = 'Traceback (most recent call last):\n  File "/app/train.py", line 88, in <module>\n    main()\n'


def verdict_on(*texts: str) -> LogVerdict:
    return verdict_of([scanned(text, f"{rank}.log", Origin(rank=rank)) for rank, text in enumerate(texts)])


@pytest.mark.parametrize(
    "error",
    [
        "TimeoutError: GET shard-00071 timed out after 30 s",
        "ValueError: heartbeat column is missing",
    ],
)
def test_a_rank_with_an_exception_of_its_own_is_shown_before_those_that_lost_it(error: str) -> None:
    verdict = verdict_on("RuntimeError: Connection closed by peer [10.0.0.2]:41321\n", f"{TRACEBACK}{error}\n")
    evidence = (
        [verdict.first_error.evidence] if verdict.first_error else verdict.first.evidence if verdict.first else []
    )
    assert any(error in each.text for each in evidence)


@pytest.mark.parametrize(
    "error",
    [
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: unspecified launch failure",
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    ],
)
def test_words_of_a_text_with_several_causes_decide_for_none_of_them(error: str) -> None:
    verdict = verdict_on(f"{TRACEBACK}{error}\n")
    assert verdict.first is not None
    assert verdict.first.cause.id == "gpu-unexplained"
    assert verdict.abstains


WARNING = (
    "[W socket.cpp:601] [c10d] The client socket has failed to connect to [gpu-head]:29411"
    " (errno: 113 - No route to host).\n"
)


def test_a_warning_of_a_start_is_refuted_by_progress_after_it_alone() -> None:
    end = "torch.distributed.DistNetworkError: the rendezvous failed\n"
    refuted = "the run made progress: its start succeeded"
    assert refuted in [each.why for each in verdict_on(f"{WARNING}{STEPS}{end}").rejected]
    assert refuted not in [each.why for each in verdict_on(f"{STEPS}restarting worker group\n{WARNING}{end}").rejected]
