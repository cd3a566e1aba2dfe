"""Output of py-spy, recorded from version 0.4.3; anything else is refused."""

import json
from typing import Any

import pytest

from pylaunch.agent.evidence.py_spy import decoded
from pylaunch.protocol import examination as bounds

PID = 23051


def thread(number: int, name: str | None, *functions: str) -> dict[str, Any]:
    frames = [
        {"name": each, "filename": "/job/sl.py", "module": None, "short_filename": "sl.py", "line": 2, "locals": None}
        for each in functions
    ]
    return {"pid": PID, "thread_id": 7, "thread_name": name, "os_thread_id": number, "active": False, "frames": frames}


def test_threads_and_frames_with_the_main_thread_first() -> None:
    text = json.dumps([thread(23060, "loader", "load"), thread(PID, None, "train", "<module>")]).encode()
    answer = decoded(text, PID)
    assert [(each.name, each.is_main) for each in answer.threads] == [("MainThread", True), ("loader", False)]
    assert [each.function for each in answer.threads[0].frames] == ["train", "<module>"]
    assert (answer.threads[0].frames[0].path, answer.threads[0].frames[0].line) == ("/job/sl.py", 2)


def test_lists_and_texts_are_bounded() -> None:
    many = [thread(number, "n" * 9000, *["f" * 9000] * 3) for number in range(1, bounds.MOST_THREADS + 3)]
    answer = decoded(json.dumps(many[:9]).encode(), PID)
    assert len(answer.threads[0].name) <= bounds.LONGEST_TEXT
    assert {len(each.function) for thread in answer.threads for each in thread.frames} == {bounds.LONGEST_TEXT}
    many = [thread(number, None) for number in range(1, bounds.MOST_THREADS + 3)]
    assert len(decoded(json.dumps(many).encode(), PID).threads) == bounds.MOST_THREADS


@pytest.mark.parametrize(
    "text", [b"", b"[", b"5", b"[5]", b'[{"os_thread_id": 1}]', b'[], "threads": [[]]', b"[1e999]", b"\0" * 99]
)
def test_anything_else_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- of the parser or of the decoder
        decoded(text, PID)
