"""Stacks of a Python process that has no helper, from py-spy where it is installed. The agent never waits for it.

py-spy reads the memory of the process and does not stop it (`--nonblocking`); the kernel decides whether it may.
"""

from __future__ import annotations

import os
from typing import Any, Sequence

from pylaunch import protocol
from pylaunch.agent.evidence.ranks.rank_answer import MOST_BYTES, RankAnswer, at_most, count
from pylaunch.agent.shared import processes
from pylaunch.agent.shared.programs import ProgramOutput, path_of
from pylaunch.base import untrusted_json
from pylaunch.protocol import examination as bounds

NAME = "py-spy"
WORDS = ("dump", "--json", "--nonblocking", "--pid")


def program(interpreters: Sequence[str]) -> str | None:
    """Return the path of py-spy beside one of `interpreters`, in the same environment; None without it."""
    beside = dict.fromkeys(os.path.dirname(each) for each in interpreters if os.path.isabs(each))
    return next((found for found in (path_of(NAME, each) for each in beside) if found), None)


def of_run(executable: str, pid: int, run: str, root: str) -> StackDump | None:
    """Start py-spy on a process that carries the mark of `run`. Return None if that is not possible."""
    if processes.run_of(pid, root) != run:
        return None
    try:
        return StackDump(executable, processes.read(pid))
    except OSError:
        return None


class StackDump(ProgramOutput):
    """py-spy at work on one process. Raises OSError if it cannot be started."""

    def __init__(self, executable: str, process: processes.Process) -> None:
        super().__init__([executable, *WORDS, str(process.pid)], MOST_BYTES)
        self._process = process

    def answer(self, text: bytes) -> RankAnswer:
        """Return the stacks in `text`. Raises ValueError for anything else, and if the process has ended."""
        if not processes.is_still(self._process):
            raise ValueError("the process has ended")
        if not text.strip():
            raise ValueError("it printed nothing: not permitted (ptrace), or not for this version of Python")
        return decoded(text, self._process.pid)

    def close(self) -> None:
        """End py-spy if it runs, without waiting for it."""
        self.child.kill()
        super().close()


def decoded(text: bytes, pid: int) -> RankAnswer:
    """Return the threads in JSON of py-spy, the main thread first. Raises ValueError for anything else."""
    threads: list[protocol.ThreadStack] = []
    rows = untrusted_json.parse_object(b'{"threads":%b}' % text, MOST_BYTES + 12)["threads"]
    try:
        for row in sorted(at_most(rows, MOST_BYTES), key=lambda row: row["os_thread_id"] != pid)[: bounds.MOST_THREADS]:
            is_main = row["os_thread_id"] == pid
            frames = [
                protocol.Frame(_text(each["name"]), _text(each["filename"]), count(each["line"]))
                for each in at_most(row["frames"], bounds.MOST_STACK_FRAMES)
            ]
            name = "MainThread" if is_main else _text(row["thread_name"] or "")
            threads.append(protocol.ThreadStack(name, is_main, tuple(frames)))
    except (KeyError, TypeError) as error:
        raise ValueError(f"expected threads with frames: {error}") from None
    return RankAnswer(threads, [], [])


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"a text instead of {type(given).__name__}")
    return given[: bounds.LONGEST_TEXT]
