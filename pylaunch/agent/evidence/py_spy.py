"""Stacks of Python processes by py-spy, where it is installed, and the processes that a rank has started.

py-spy reads the memory of a process and does not stop it (`--nonblocking`); the kernel decides whether it may. The
agent never waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from pylaunch import protocol
from pylaunch.agent.evidence import rank_states
from pylaunch.agent.evidence.rank_answer import MOST_BYTES, RankAnswer, at_most, count
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.shared import processes
from pylaunch.agent.shared.programs import ProgramOutput, path_of
from pylaunch.agent.shared.text import text_of, waits_in
from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import replace
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


MOST_READ = 64
"""Children of one rank, and threads of one child, that are read."""

MOST_DUMPS = 4
"""Children of one rank whose stacks py-spy reads."""

LOCK = "futex"


def children(pid: int) -> tuple[tuple[protocol.ChildProcess, ...], int]:
    """Return the first descendants of `pid`, and the number of all. Stopped ones and those at a lock precede."""
    pids = list(rank_states.family(pid))[1:]
    found = [child for child in map(_child, pids[:MOST_READ]) if child is not None]
    found.sort(key=lambda child: (not child.is_stopped, not child.waits_for_lock, child.pid))
    return tuple(found[: bounds.MOST_CHILDREN]), len(pids)


def _child(pid: int) -> protocol.ChildProcess | None:
    try:
        name, _, rest = text_of(f"/proc/{pid}/stat").partition("(")[2].rpartition(")")
        fields = rest.split()
        threads = os.listdir(f"/proc/{pid}/task")[:MOST_READ]
        waits = tuple(sorted({_wait(int(thread)) for thread in threads})[: bounds.MOST_WAITS])
        return protocol.ChildProcess(pid, name, fields[0], rank_states.seconds(fields), waits)
    except (OSError, IndexError, ValueError):
        return None


def _wait(thread: int) -> str:
    """Return the system call in which `thread` waits, else the kernel function; "running" or "unknown" without one."""
    name = rank_states.syscall(thread) or waits_in(thread)
    if name:
        return LOCK if name.startswith("futex") else name
    return "running" if rank_states.letter(thread) == "R" else "unknown"


class ChildStacks:
    """View of one rank while py-spy reads the stacks of its children."""

    def __init__(self, view: protocol.RankView, run: str, root: str, mask: Mask) -> None:
        self.view = view
        self.dumps: dict[int, StackDump] = {}
        """By process id; those that have not ended."""

        self._run, self._root, self._mask = run, root, mask

    def begin(self, executable: str, most: int) -> None:
        """Start py-spy on `most` children that are Python programs of the run."""
        for child in self.view.children:
            if len(self.dumps) < min(most, MOST_DUMPS) and rank_states.is_python(child.pid):
                dump = of_run(executable, child.pid, self._run, self._root)
                if dump is not None:
                    self.dumps[child.pid] = dump

    def receive(self, pid: int) -> bool:
        """Read from the py-spy of the child `pid`. Return True when it has ended."""
        dump = self.dumps[pid]
        if not dump.has_ended():
            return False
        try:
            answer = dump.answer(self._mask.hide(dump.text))
        except ValueError as error:
            self._add(pid, f"py-spy cannot read it: {error}")
        else:
            self._add(pid, "", answer.threads)
        return True

    def give_up(self, note: str) -> None:
        """Note that py-spy is late with its last children."""
        for pid in self.dumps:
            self._add(pid, note)

    def _add(self, pid: int, note: str, threads: Sequence[protocol.ThreadStack] = ()) -> None:
        kept = tuple(threads[: bounds.MOST_CHILD_THREADS])
        listed = [replace(each, threads=kept, note=note) if each.pid == pid else each for each in self.view.children]
        self.view = replace(self.view, children=tuple(listed))
