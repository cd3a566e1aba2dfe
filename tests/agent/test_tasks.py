"""Tasks of the network test that wait for descriptors."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from pylaunch.agent.piped.tasks import READ, Tasks

if TYPE_CHECKING:
    from pylaunch.agent.piped.tasks import Task


@pytest.mark.parametrize("is_answered", [True, False])
def test_an_answer_that_arrives_while_the_program_is_held_up_is_not_late(
    monkeypatch: pytest.MonkeyPatch, *, is_answered: bool
) -> None:
    """A node whose processors are busy must not call the others silent."""
    held_up_s, real = [0.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + held_up_s[0])
    answer, answering = os.pipe()
    begin, beginning = os.pipe()
    found: list[bool] = []

    def waits(until: float) -> Task:
        found.append((yield answer, READ, until))

    def holds_up() -> Task:
        until = time.monotonic() + 60
        tasks.start(waits(until))
        os.write(beginning, b"b")
        yield begin, READ, until
        if is_answered:
            os.write(answering, b"a")
        held_up_s[0] += 120

    def main() -> Task:
        yield from holds_up()
        while not found:
            yield begin, READ, time.monotonic() + 10

    tasks = Tasks()
    tasks.run_until_ended(main())
    assert found == [is_answered]
    for each in (answer, answering, begin, beginning):
        os.close(each)
