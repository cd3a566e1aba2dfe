"""A fallback follows a failure of the fabric only, once, and only if the user permits it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pylaunch.explain.fallback import FABRIC, fallback_of
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, RankEnd, Status
from pylaunch.store.signatures import signatures

JOB = JobSpec(("train.py",), Framework.DIRECT, "/home/ml", max_restarts=2, fallback=True)


def failed(*lines: str) -> Outcome:
    end = RankEnd(0, "n1", 1, None, 0.0, stopped=False, last_lines=lines)
    return Outcome(Status.FAILED, "it failed", 0.0, (end,), {})


TIMED_OUT = (
    "NCCL WARN NET/IB : Got completion from peer 10.1.7.21<40211> with error 12, opcode 1, len 0, vendor err 129"
)
FULL = "OSError: [Errno 28] No space left on device: '/checkpoints/7.pt'"


def test_after_a_failure_of_the_fabric_tcp_is_used() -> None:
    step = fallback_of(JOB, failed("step 7", TIMED_OUT), signatures)
    assert step is not None
    assert step.env == {"NCCL_IB_DISABLE": "1"}
    assert "point to InfiniBand" in step.text


@pytest.mark.parametrize(
    ("job", "outcome"),
    [
        (replace(JOB, fallback=False), failed(TIMED_OUT)),
        (replace(JOB, env={"NCCL_IB_DISABLE": "1"}), failed(TIMED_OUT)),
        (JOB, failed()),
        (JOB, failed("ValueError: no such layer")),
        (JOB, failed(FULL)),
    ],
    ids=["not permitted", "already without", "no text", "no signature", "another cause"],
)
def test_nothing_else_changes_the_network(job: JobSpec, outcome: Outcome) -> None:
    assert fallback_of(job, outcome, signatures) is None


def test_the_classes_exist() -> None:
    assert {each.page for each in signatures().causes.values() if each.id in FABRIC} == {"infiniband"}
    assert set(signatures().causes) >= FABRIC
