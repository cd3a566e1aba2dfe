"""A reader that hangs or dies costs the others nothing."""

import json
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent.probe.registry import DEADLINE_S, Reader
from pylaunch.agent.probe.runtime import readings
from tests.agent.controller import gone
from tests.waiting import DEADLINE_S as LONG_S
from tests.waiting import wait_until


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


def test_several_readers_that_wait_do_so_at_the_same_time(tmp_path: Path) -> None:
    def meets(name: str) -> int:
        (tmp_path / name).touch()
        return wait_until(lambda: len(list(tmp_path.iterdir())) == 8 and os.getpid(), "the other readers")

    by_name: dict[str, Reader[Any, Any]] = {"meets": Reader("meets", meets, LONG_S)}
    found = taken({f"meets#{number}": str(number) for number in range(8)}, by_name)
    assert len({each["value"] for each in found.values()}) == 8


def test_a_reader_that_answers_while_the_probe_is_held_up_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose processors are busy must not call its file system hung."""
    gate, opening = os.pipe()
    look, awaited = select.select, ["is silent"]

    def held_up(pipes: Any, *rest: Any) -> Any:
        """Return, too late, what was ready before the reader answered."""
        ready = look(pipes, *rest)
        if awaited and awaited.pop():
            os.write(opening, b"o")
            look(pipes, [], [], LONG_S)
            late = time.monotonic() + 0.3
            while time.monotonic() < late:
                pass
        return ready

    monkeypatch.setattr(select, "select", held_up)
    by_name: dict[str, Reader[Any, Any]] = {"gate": Reader("gate", lambda _: os.read(gate, 1).decode(), 0.3)}
    assert taken({"gate": None}, by_name)["gate"]["value"] == "o"
    for each in (gate, opening):
        os.close(each)


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


def test_readers_that_all_die_are_all_reported() -> None:
    found = taken({f"dies#{number}": None for number in range(3)}, readers())
    assert [each["unmeasured"] for each in found.values()] == ["its reader died"] * 3
