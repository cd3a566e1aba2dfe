"""A reader that hangs or dies costs the others nothing."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent.probe.registry import DEADLINE_S, Reader
from pylaunch.agent.probe.runtime import readings
from tests.agent.controller import gone


def hangs(question: Any) -> None:
    signal.pause()


def dies(question: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def cannot(question: Any) -> None:
    raise PermissionError(13, "Permission denied", "/sys/x")


def answers(question: Any) -> dict[str, Any]:
    return {"asked": question, "much": "x" * 300_000}


LOOKS = {"hangs": hangs, "dies": dies, "cannot": cannot, "answers": answers}


def readers() -> dict[str, Reader[Any, Any]]:
    limits = {name: 0.2 if name == "hangs" else DEADLINE_S for name in LOOKS}
    return {name: Reader(name, look, limits[name]) for name, look in LOOKS.items()}


def taken(asked: dict[str, Any], by_name: dict[str, Reader[Any, Any]]) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in readings(asked, by_name).items()}


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
    asked = {"answers#before": 6, reader: None, "answers": 7, "answers#behind": 8}
    found = taken(asked, readers())
    assert list(found) == list(asked)
    assert found[reader]["unmeasured"] == reason
    assert found[reader].get("silent", False) == (reader == "hangs")
    for name in ("answers#before", "answers", "answers#behind"):
        assert found[name]["value"]["asked"] == asked[name]
        assert len(found[name]["value"]["much"]) == 300_000


def test_a_reader_whose_probe_is_killed_ends_however_long_its_answer_is(tmp_path: Path) -> None:
    file = tmp_path / "pid"

    def outlives(question: Any) -> str:
        file.write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGKILL)
        return "x" * 300_000

    probe = os.fork()
    if not probe:
        try:
            readings({"outlives": None}, {"outlives": Reader("outlives", outlives, DEADLINE_S)})
        finally:
            os._exit(1)
    os.waitpid(probe, 0)
    gone(int(file.read_text()))
