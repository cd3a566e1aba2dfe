"""Answers of ranks, which may be anything."""

import json
from typing import Any

import pytest

from pylaunch import protocol
from pylaunch.agent.evidence.examination import (
    decoded_answer,
    is_other_rank,
    stacks_of_faulthandler,
)
from pylaunch.protocol import examination as bounds

PLACES = (protocol.Frame("all_reduce", "/lib/d.py", 7), protocol.Frame("train", "train.py", 31))
CALL = ["0", 4, "all_reduce", [[3, 2]], [[3, 2]], ["Float"], False, False, 1.5, [0, 1]]
ANSWER = {
    "frames": [["all_reduce", "/lib/d.py", 7], ["train", "train.py", 31]],
    "threads": [["MainThread", True, [0, 1]]],
    "groups": [["0", "default_pg", [0, 1, 2]]],
    "collectives": [CALL],
    "note": "",
    "place": ["0", "3"],
    "handles": "",
}

FAULTHANDLER = """\
Thread 0x00007f4ca124a6c0 (most recent call first):
  File "/x/agent.pyz/pylaunch/agent/in_rank/questions.py", line 107 in _serve

Thread 0x00007f4ca1000000 [loader] (most recent call first):
  File "data.py", line 12 in load

Current thread 0x00007f4ca1509040 (most recent call first):
  File "/srv/train.py", line 4 in inner
  File "/srv/train.py", line ??? in <module>
"""


def changed(**fields: Any) -> bytes:
    return json.dumps({**ANSWER, **fields}).encode()


def test_an_answer_is_decoded_to_stacks_groups_and_collectives() -> None:
    answer = decoded_answer(changed())
    assert answer.threads == [protocol.ThreadStack("MainThread", is_main=True, frames=PLACES)]
    assert answer.groups == [protocol.ProcessGroup("0", "default_pg", (0, 1, 2))]
    assert answer.collectives == [
        protocol.Collective(
            "0", 4, "all_reduce", ((3, 2),), ((3, 2),), ("Float",), is_retired=False, age_s=1.5, call_site=PLACES
        )
    ]


def test_lists_and_texts_are_cut_to_their_bounds() -> None:
    answer = decoded_answer(
        changed(
            frames=[["f" * 5000, "p" * 5000, 1 << 62]] * 5,
            threads=[["t" * 500, True, [0] * 100]] * 100,
            collectives=[CALL] * 400,
        )
    )
    assert len(answer.threads[0].frames[0].function) == bounds.LONGEST_TEXT
    assert len(answer.threads) == bounds.MOST_THREADS
    assert len(answer.threads[0].frames) == bounds.MOST_STACK_FRAMES
    assert len(answer.collectives) == bounds.MOST_COLLECTIVES


@pytest.mark.parametrize(
    "line",
    [
        b"", b"{}", b"[]", b"null", b"Hello", changed(frames=None), changed(frames=[["f", "p", "1"]]),
        changed(frames=[["f", "p", True]]), changed(threads=[["MainThread", True]]), changed(threads=[[1, True, []]]),
        changed(groups=[["0", "", "012"]]), changed(groups={"0": []}), changed(collectives=[[1, 2]]),
        changed(collectives=[[*CALL[:8], "soon", []]]), changed(collectives=[[*CALL[:3], [["x"]], *CALL[4:]]]),
        changed(note=None), changed(frames=[["f", "p", 1e999]]), b"[" * 100_000,
    ],
)  # fmt: skip
def test_anything_else_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- any message: it is shown as the rank's fault
        decoded_answer(line)


def test_stacks_of_faulthandler_begin_with_the_main_thread_and_omit_the_thread_that_answers() -> None:
    answer = stacks_of_faulthandler(FAULTHANDLER)
    assert [(thread.name, thread.is_main) for thread in answer.threads] == [("MainThread", True), ("loader", False)]
    frames = (protocol.Frame("inner", "/srv/train.py", 4), protocol.Frame("<module>", "/srv/train.py", 0))
    assert answer.threads[0].frames == frames


@pytest.mark.parametrize(
    ("place", "is_other"),
    [((), False), (("1", "4"), False), (("1", "2"), True), (("0", "4"), True)],
    ids=["plain program", "as given", "a smaller group", "another rank"],
)
def test_a_group_with_another_rank_or_world_size_than_its_rank_was_given_is_known(
    place: tuple[str, ...], *, is_other: bool
) -> None:
    assert is_other_rank(place, {"RANK": "1", "WORLD_SIZE": "4", "MASTER_PORT": "1"}) is is_other
    assert not is_other_rank(place, {}), "a framework without these variables"
