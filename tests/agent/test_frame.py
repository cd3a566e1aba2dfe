"""Every reader runs in a child process of its own, so that a failing one affects no other."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from pylaunch.agent.probe import frame


def hangs(question: Any) -> None:
    signal.pause()


def dies(question: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def cannot(question: Any) -> None:
    raise PermissionError(13, "Permission denied", "/sys/x")


def answers(question: Any) -> dict[str, Any]:
    return {"asked": question, "much": "x" * 300_000}


READERS = {"hangs": hangs, "dies": dies, "cannot": cannot, "answers": answers}


@pytest.mark.parametrize(
    ("reader", "reason"),
    [
        ("hangs", "no answer within 0.2 s"),
        ("dies", "its reader died"),
        ("cannot", "[Errno 13] Permission denied: '/sys/x'"),
        ("unheard_of", "this probe has no such reader"),
    ],
)
def test_a_reader_that_fails_reports_the_reason_and_the_others_answer(reader: str, reason: str) -> None:
    found = frame.readings(READERS, {reader: None, "answers": 7}, {"hangs": 0.2})
    assert found[reader]["unmeasured"] == reason
    assert found["answers"]["value"]["asked"] == 7
    assert len(found["answers"]["value"]["much"]) == 300_000
