"""Processes that a rank has started, such as DataLoader workers: their state, and their stacks by py-spy on request."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pylaunch import protocol
from pylaunch.agent.evidence.ranks import process_view, py_spy, rank_states
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.shared.text import text_of, waits_in
from pylaunch.base.dataclass import replace
from pylaunch.protocol import examination as bounds

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
        return protocol.ChildProcess(pid, name, fields[0], process_view.seconds(fields), waits)
    except (OSError, IndexError, ValueError):
        return None


def _wait(thread: int) -> str:
    """Return the system call in which `thread` waits, else the kernel function; "running" or "unknown" without one."""
    name = process_view.syscall(thread) or waits_in(thread)
    if name:
        return LOCK if name.startswith("futex") else name
    return "running" if rank_states.letter(thread) == "R" else "unknown"


class ChildStacks:
    """View of one rank while py-spy reads the stacks of its children."""

    def __init__(self, view: protocol.RankView, run: str, root: str, mask: Mask) -> None:
        self.view = view
        self.dumps: dict[int, py_spy.StackDump] = {}
        """By process id; those that have not ended."""

        self._run, self._root, self._mask = run, root, mask

    def begin(self, executable: str, most: int) -> None:
        """Start py-spy on `most` children that are Python programs of the run."""
        for child in self.view.children:
            if len(self.dumps) < min(most, MOST_DUMPS) and process_view.is_python(child.pid):
                dump = py_spy.of_run(executable, child.pid, self._run, self._root)
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
