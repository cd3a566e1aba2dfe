"""Ranks whose stacks are equal, and stacks as short text. Pure."""

from collections.abc import Iterable

from pylaunch.base.dataclass import dataclass
from pylaunch.protocol.examination import Frame, RankView, ThreadStack
from pylaunch.verdict.hangs.stacks import is_own, main_stack

MOST_OWN = 8
"""Frames of the user's code that are shown of one stack, the innermost ones."""

PROCESS_STATES = {
    "R": "running", "S": "sleeping", "D": "uninterruptible, waits in the kernel", "T": "stopped (SIGSTOP)",
    "t": "stopped by a debugger", "Z": "ended, not reaped yet", "": "gone",
}  # fmt: skip


@dataclass(frozen=True)
class StackGroup:
    """Ranks that do the same."""

    views: tuple[RankView, ...]
    """By rank; never empty."""

    stack: tuple[Frame, ...]
    """Stack of the main thread, innermost first; () if it is unknown."""

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(view.rank for view in self.views)


def stack_groups(views: Iterable[RankView]) -> list[StackGroup]:
    """Return the groups of `views` with equal main stacks, the largest first.

    Ranks without a stack are equal if their process state, kernel function and note are.
    """
    alike: dict[object, list[RankView]] = {}
    for view in sorted(views, key=lambda each: each.rank):
        stack = main_stack(view)
        key = (view.state, view.note, view.wchan, view.syscall) if stack is None else (stack.frames, view.note)
        alike.setdefault(key, []).append(view)
    groups = [StackGroup(tuple(each), _frames(main_stack(each[0]))) for each in alike.values()]
    return sorted(groups, key=lambda group: (-len(group.views), group.ranks))


def _frames(stack: ThreadStack | None) -> tuple[Frame, ...]:
    return () if stack is None else stack.frames


@dataclass(frozen=True)
class ShownFrame:
    """Text of one frame, or of several foreign ones."""

    text: str
    is_own: bool


def shown_stack(frames: tuple[Frame, ...], workdir: str) -> list[ShownFrame]:
    """Return the frames that locate a thread, innermost first.

    They are the innermost frame, the frames of the user's code, and the foreign frame that each of those called.
    Paths begin below `workdir`, or below the directory of installed packages.
    """
    own = [number for number, frame in enumerate(frames) if is_own(frame)][:MOST_OWN]
    kept = sorted({0, *own, *(number - 1 for number in own if number > 0)}) if frames else []
    shown: list[ShownFrame] = []
    before = -1
    for number in kept:
        if number - before > 1:
            shown.append(ShownFrame(f"… {number - before - 1} more", is_own=False))
        before = number
        frame = frames[number]
        shown.append(ShownFrame(f"{frame.function} ({short_path(frame.path, workdir)}:{frame.line})", is_own(frame)))
    return shown


def short_path(path: str, workdir: str) -> str:
    """Return `path` below `workdir`, or below the directory of installed packages or of the standard library."""
    for part in ("/site-packages/", "/dist-packages/"):
        if part in path:
            return path.rpartition(part)[2]
    if "/lib/python3" in path:
        return path.rpartition("/lib/python3")[2].partition("/")[2]
    return path.removeprefix(workdir.rstrip("/") + "/")


@dataclass(frozen=True)
class ChildGroup:
    """Children of ranks that do the same."""

    name: str
    waits: tuple[str, ...]
    pids: tuple[tuple[int, int], ...]
    """Rank and process id of each."""


def child_groups(group: StackGroup) -> list[ChildGroup]:
    """Return the listed children of the ranks in `group`, those that do the same once, the smallest group first."""
    found: dict[tuple[str, tuple[str, ...]], list[tuple[int, int]]] = {}
    for view in group.views:
        for child in view.children:
            found.setdefault((child.name, child.waits), []).append((view.rank, child.pid))
    return sorted((ChildGroup(*key, tuple(pids)) for key, pids in found.items()), key=lambda each: len(each.pids))


def other_threads(group: StackGroup) -> list[tuple[str, tuple[int, ...], tuple[Frame, ...]]]:
    """Return name, ranks and stack of the other threads of a group; threads with equal names and stacks once."""
    found: dict[tuple[str, tuple[Frame, ...]], list[int]] = {}
    for view in group.views:
        for thread in view.threads:
            if not thread.is_main and thread.frames:
                ranks = found.setdefault((thread.name, thread.frames), [])
                if view.rank not in ranks:
                    ranks.append(view.rank)
    return [(name, tuple(ranks), frames) for (name, frames), ranks in found.items()]
