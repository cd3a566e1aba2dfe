"""A reader that hangs or dies costs the others nothing, also where quick ones share a process."""

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


def pid(question: Any) -> int:
    return os.getpid()


LOOKS = {"hangs": hangs, "dies": dies, "cannot": cannot, "answers": answers}


def readers(*, are_quick: bool) -> dict[str, Reader[Any, Any]]:
    limits = {name: 0.2 if name == "hangs" else DEADLINE_S for name in LOOKS}
    return {name: Reader(name, look, limits[name], is_quick=are_quick) for name, look in LOOKS.items()}


@pytest.mark.parametrize("are_quick", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize(
    ("reader", "reason"),
    [
        ("hangs", "no answer within 0.2 s"),
        ("dies", "its reader died"),
        ("cannot", "[Errno 13] Permission denied: '/sys/x'"),
        ("unheard_of", "this probe has no such reader"),
    ],
)
def test_a_reader_that_fails_says_why_and_the_others_answer(reader: str, reason: str, *, are_quick: bool) -> None:
    asked = {"answers#before": 6, reader: None, "answers": 7, "answers#behind": 8}
    found = readings(asked, readers(are_quick=are_quick))
    assert list(found) == list(asked)
    assert found[reader]["unmeasured"] == reason
    for name in ("answers#before", "answers", "answers#behind"):
        assert found[name]["value"]["asked"] == asked[name]
        assert len(found[name]["value"]["much"]) == 300_000


def test_quick_readers_share_a_process() -> None:
    asked = {"pid": None, "pid#again": None, "alone": None}
    by_name: dict[str, Reader[Any, Any]] = {
        "pid": Reader("pid", pid, DEADLINE_S, is_quick=True),
        "alone": Reader("alone", pid, DEADLINE_S),
    }
    found = readings(asked, by_name)
    assert found["pid"]["value"] == found["pid#again"]["value"] != os.getpid()
    assert found["alone"]["value"] not in (found["pid"]["value"], os.getpid())
