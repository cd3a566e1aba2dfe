"""Each reader runs in a child of its own: one that hangs or dies costs the others nothing."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from pylaunch.agent.probe.registry import DEADLINE_S, Reader
from pylaunch.agent.probe.runtime import readings


def hangs(question: Any) -> None:
    signal.pause()


def dies(question: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def cannot(question: Any) -> None:
    raise PermissionError(13, "Permission denied", "/sys/x")


def answers(question: Any) -> dict[str, Any]:
    return {"asked": question, "much": "x" * 300_000}


LOOKS = {"hangs": hangs, "dies": dies, "cannot": cannot, "answers": answers}
READERS: dict[str, Reader[Any, Any]] = {
    name: Reader(name, look, 0.2 if name == "hangs" else DEADLINE_S) for name, look in LOOKS.items()
}


@pytest.mark.parametrize(
    ("reader", "reason"),
    [
        ("hangs", "no answer within 0.2 s"),
        ("dies", "its reader died"),
        ("cannot", "[Errno 13] Permission denied: '/sys/x'"),
        ("unheard_of", "this probe has no such reader"),
    ],
)
def test_a_reader_that_fails_says_why_and_the_others_answer(reader: str, reason: str) -> None:
    found = readings({reader: None, "answers": 7}, READERS)
    assert found[reader]["unmeasured"] == reason
    assert found["answers"]["value"]["asked"] == 7
    assert len(found["answers"]["value"]["much"]) == 300_000
