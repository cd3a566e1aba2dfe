"""Choose the process of a rank that trains, where several Python processes of the rank answer. Pure.

A launcher in a rank waits for the process that it has started; a training process may start helpers, and continues.
"""

from __future__ import annotations

from pylaunch.agent.evidence.rank_answer import RankAnswer

LAUNCHERS = ("/subprocess.py", "/torch/distributed/elastic/agent/server/api.py", "/deepspeed/launcher/launch.py")
"""Ends of the paths of modules in which a main thread waits for a child process."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence, TypeVar

    T = TypeVar("T")


def training_process(candidates: Sequence[tuple[T, int, RankAnswer]]) -> T:
    """Return the candidate that trains; each has its distance from the first process of the rank, and its answer.

    A process with process groups precedes all others. Of the others, the first that does not wait for a child process
    trains; if all wait, the last one does.
    """

    def key(candidate: tuple[T, int, RankAnswer]) -> tuple[bool, bool, int]:
        _, distance, answer = candidate
        is_waiting = waits_for_child(answer)
        return bool(answer.groups), not is_waiting, distance if is_waiting else -distance

    return max(candidates, key=key)[0]


def waits_for_child(answer: RankAnswer) -> bool:
    """Return True if the main thread is in a function that waits for a child process."""
    return any(
        answer.frames[number].path.endswith(LAUNCHERS)
        for thread in answer.threads
        if thread.is_main
        for number in thread.frames
    )
