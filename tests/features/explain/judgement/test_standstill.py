"""Logs that stop without an error: where the programs stand, and for what they wait."""

import pytest

from pylaunch.features.explain.judgement.verdict import LogVerdict
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.line import Origin
from tests.features.explain.judgement.verdicts import scanned, verdict_of

FORKED = """\
huggingface/tokenizers: The current process just got forked, after parallelism has already been used.
To disable this warning, you can either:
\t- Avoid using `tokenizers` before the fork if possible
\t- Explicitly set the environment variable TOKENIZERS_PARALLELISM=(true | false)
"""
NCCL = "n1:4711:4780 [0] NCCL INFO "


def verdict_on(*logs: str, rank: bool = False) -> LogVerdict:
    origins = [Origin(f"n{at}", at) if rank else Origin() for at in range(len(logs))]
    return verdict_of([scanned(log, f"{at}.log", origins[at]) for at, log in enumerate(logs)])


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("starting\nUsing /root/.cache/torch_extensions/py311_cu121 as PyTorch extensions root...\n", "extension-lock"),
        ("Loading extension module cpu_adam...\n", "extension-lock"),
        ("[2026-11-23 08:00:00,1] [INFO] [comm.py:652:init_distributed] cdb=None\n", "rank-missing"),
        ("> initializing torch distributed ...\n", "rank-missing"),
        ("Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/16\n", "rank-missing"),
        ("I1123 08:00:00.1 1 api.py:525] [default] Rendezvous'ing worker group\n", "rank-missing"),
        (f"{NCCL}Bootstrap : Using eth0:10.0.0.3<0>\n{NCCL}Using network Socket\n", "nccl-waits"),
        ("NCCL version 2.21.5+cuda12.4\n", "nccl-waits"),
        (f"{NCCL}Trees [0] 1/-1/-1->0->-1\n{NCCL}Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n",
         "nccl-waits"),
        (f"{NCCL}Connected all rings\n{NCCL}Connected all trees\n", "first-collective"),
        (f"{NCCL}ncclCommInitRank comm 0x5 rank 0 nranks 4 cudaDev 0 commId 0x3 - Init COMPLETE\n", "first-collective"),
        ("INFO:2026-11-23 08:00:00,1:jax._src.distributed:157: Connecting to JAX distributed service on n1:8476\n",
         "rank-missing"),
        ("Generating train split: 0 examples [00:00, ? examples/s]\n", "data-wait"),
        (FORKED, "fork-deadlock"),
        ("INFO ray_utils.py:212] Waiting for creating a placement group of specs for 10 seconds. specs=[{'GPU': 1}]\n",
         "resources-missing"),
        ("srun: job 88121 queued and waiting for resources\n", "resources-missing"),
    ],
)  # fmt: skip
def test_a_log_that_ends_with_the_line_of_a_wait_says_for_what(log: str, cause: str) -> None:
    verdict = verdict_on(log)
    assert not verdict.failed
    assert verdict.stands
    assert verdict.first is not None
    assert verdict.first.cause.id == cause
    assert verdict.first.confidence is Confidence.LOW
    assert verdict.first.ranks == ()


def test_a_line_of_a_wait_in_passing_is_none() -> None:
    log = f"{NCCL}Init COMPLETE\n" + "".join(f"step {at} loss 3.0\n" for at in range(4))
    assert verdict_on(log).causes == ()
    assert (
        verdict_on("Loading extension module cpu_adam...\nTime to load cpu_adam op: 2.1 seconds\na\nb\nc\n").causes
        == ()
    )


@pytest.mark.parametrize(
    "rest",
    [
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 12.34\n",
        "        1024           256     float     sum      -1    11.5    0.09    0.15      0\n",
        "all_reduce: done\n",
    ],
)
def test_results_after_the_line_of_a_wait_show_that_it_ended(rest: str) -> None:
    assert verdict_on(f"{NCCL}Init COMPLETE\n{rest}").causes == ()


def test_the_rank_that_stands_at_the_earliest_line_holds_up_the_others() -> None:
    ready = f"{NCCL}Connected all trees\n"
    verdict = verdict_on(ready, ready, "Loading extension module cpu_adam...\n", ready, rank=True)
    assert verdict.first is not None
    assert verdict.first.cause.id == "extension-lock"
    assert verdict.first.ranks == (2,)
    assert verdict.first.confidence is Confidence.MEDIUM


def test_an_error_precedes_the_line_at_which_another_rank_waits() -> None:
    waits = "> initializing torch distributed ...\n"
    verdict = verdict_on(waits, waits, "BucketError: bucket 4 is empty\n", rank=True)
    assert verdict.failed
    assert verdict.first_error is not None
    assert verdict.first_error.evidence.who == "rank 2 on n2"
