"""A fallback follows a failure of the fabric only, once, and only if the user permits it."""

from dataclasses import replace

import pytest

from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.runtime import fallback
from pylaunch.store.content import signatures
from pylaunch.verdict.fallback import BACKEND, FABRIC, NCCL, fallback_of

JOB = JobSpec(("train.py",), Framework.DIRECT, "/home/ml", max_restarts=2, fallback=True)


WITHOUT = replace(JOB, env={"NCCL_IB_DISABLE": "1"})


def failed(*lines: str) -> Outcome:
    return all_failed(lines)


def all_failed(*lines: tuple[str, ...]) -> Outcome:
    """One rank for each of `lines`."""
    ends = tuple(RankEnd(rank, f"n{rank}", 1, None, 0.0, stopped=False, last_lines=of) for rank, of in enumerate(lines))
    return Outcome(Status.FAILED, "it failed", 0.0, ends, {})


TIMED_OUT = (
    "NCCL WARN NET/IB : Got completion from peer 10.1.7.21<40211> with error 12, opcode 1, len 0, vendor err 129"
)
UNEXPLAINED = "ncclInternalError: Internal check failed."
INVALID = "ncclInvalidUsage: This usually reflects invalid usage of NCCL library."
NO_TRANSPORT = "NCCL WARN No transport found for rank 0[1000] -> rank 1[2000]"
LOST = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
FULL = "OSError: [Errno 28] No space left on device: '/checkpoints/7.pt'"


def test_after_a_failure_of_the_fabric_tcp_is_used() -> None:
    step = fallback_of(JOB, failed("step 7", TIMED_OUT), signatures)
    assert step is not None
    assert step.env == {"NCCL_IB_DISABLE": "1"}
    assert "point to InfiniBand" in step.text


@pytest.mark.parametrize("text", [UNEXPLAINED, NO_TRANSPORT, TIMED_OUT])
def test_after_a_failure_of_nccl_without_the_fabric_scripts_that_ask_use_gloo(text: str) -> None:
    step = fallback_of(WITHOUT, all_failed((text,), ("step 8", UNEXPLAINED)), signatures)
    assert step is not None
    assert step.env == {"PYLAUNCH_BACKEND": "gloo"}
    assert "other scripts use NCCL again" in step.text


def test_both_sides_of_the_variable_have_the_same_name() -> None:
    assert fallback.VARIABLE == BACKEND


@pytest.mark.parametrize(
    ("job", "outcome"),
    [
        (replace(JOB, fallback=False), failed(TIMED_OUT)),
        (JOB, failed(UNEXPLAINED)),
        (replace(WITHOUT, env={**WITHOUT.env, "PYLAUNCH_BACKEND": "gloo"}), failed(UNEXPLAINED)),
        (replace(WITHOUT, fallback=False), failed(UNEXPLAINED)),
        (WITHOUT, Outcome(Status.FAILED, "it failed", 0.0, (), {})),
        (WITHOUT, failed(LOST)),
        (WITHOUT, all_failed((UNEXPLAINED,), ())),
        (WITHOUT, all_failed((UNEXPLAINED,), ("ValueError: no such layer",))),
        (WITHOUT, all_failed((UNEXPLAINED,), (LOST,))),
        (JOB, failed()),
        (JOB, failed("ValueError: no such layer")),
        (JOB, failed(FULL)),
        (WITHOUT, failed(INVALID)),
    ],
    ids=[
        "not permitted",
        "not of the fabric",
        "already gloo",
        "gloo not permitted",
        "no rank failed",
        "a peer was lost",
        "a silent rank",
        "a rank with another cause",
        "a rank that lost its peer",
        "no text",
        "no signature",
        "another cause",
        "a wrong call of NCCL",
    ],
)
def test_nothing_else_changes_the_network(job: JobSpec, outcome: Outcome) -> None:
    assert fallback_of(job, outcome, signatures) is None


def test_the_classes_exist() -> None:
    assert {each.page for each in signatures().causes.values() if each.id in FABRIC} == {"infiniband"}
    assert set(signatures().causes) >= FABRIC | NCCL
