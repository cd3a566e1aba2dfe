"""Ranks whose stacks are equal, their stacks and collectives as lines of text. Pure."""

from collections.abc import Iterable, Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.model.hostset import fold, fold_ranks
from pylaunch.model.text.quantity import counted
from pylaunch.model.text.sanitise import visible_line
from pylaunch.protocol.examination import Collective, Frame, RankView, ThreadStack
from pylaunch.runs.stacks import StacksReport
from pylaunch.verdict.hangs.stacks import PROCESS_STATES, is_own, main_stack

MOST_OWN = 8
"""Frames of the user's code that are shown of one stack, the innermost ones."""

MOST_THREADS = 12
"""Other threads that are shown for one group of ranks."""

LAST = 3
"""Collectives that are shown for each process group."""


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


def shown_stack(frames: tuple[Frame, ...], workdir: str) -> list[str]:
    """Return the frames that locate a thread, innermost first, with the number of those between.

    They are the innermost frame, the frames of the user's code, and the foreign frame that each of those called.
    Paths begin below `workdir`, or below the directory of installed packages.
    """
    own = [number for number, frame in enumerate(frames) if is_own(frame)][:MOST_OWN]
    kept = sorted({0, *own, *(number - 1 for number in own if number > 0)}) if frames else []
    shown: list[str] = []
    for before, number in zip([-1, *kept], kept, strict=False):
        if number - before > 1:
            shown.append(f"… {number - before - 1} more")
        frame = frames[number]
        shown.append(f"{frame.function} ({short_path(frame.path, workdir)}:{frame.line})")
    return shown


def short_path(path: str, workdir: str) -> str:
    """Return `path` below `workdir`, or below the directory of installed packages or of the standard library."""
    for part in ("/site-packages/", "/dist-packages/"):
        if part in path:
            return path.rpartition(part)[2]
    if "/lib/python3" in path:
        return path.rpartition("/lib/python3")[2].partition("/")[2]
    return path.removeprefix(workdir.rstrip("/") + "/")


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


def lines(report: StacksReport, *, collectives: bool) -> Iterator[str]:
    """Yield the text."""
    plan = report.record.plan
    if not report.views:
        yield from _without_views(report)
        return
    groups = stack_groups(report.views)
    when = "before they were stopped" if report.is_recorded else "now"
    yield f"run {plan.run}: {counted(len(report.views), 'rank')} {when}, {counted(len(groups), 'stack')}"
    for group in groups:
        yield from _group(group, plan.job.workdir)
        if collectives:
            yield from _collectives(group, plan.job.workdir)


def _without_views(report: StacksReport) -> Iterator[str]:
    run, outcome = report.record.plan.run, report.record.outcome
    if outcome is None:
        yield f"no rank of run {run} runs"
        return
    yield f"no stack of run {run} is recorded: nodes record those of ranks that run when another one fails"
    yield f"run {run} {outcome.status.value}: {_plain(outcome.reason)}"


def _group(group: StackGroup, workdir: str) -> Iterator[str]:
    first = group.views[0]
    states = sorted({PROCESS_STATES.get(view.state, view.state) for view in group.views})
    noun = "rank" if len(group.views) == 1 else "ranks"
    yield ""
    yield f"{noun} {fold_ranks(group.ranks)} on {fold({view.host for view in group.views})}: {', '.join(states)}"
    if first.note:
        yield f"  {_plain(first.note)}"
    if not group.stack and (first.syscall or first.wchan):
        kernel = f" in {first.wchan}" if first.wchan else ""
        yield f"  pid {first.pid}: system call {_plain(first.syscall or 'unknown')}{_plain(kernel)}"
    if group.stack:
        yield f"  {_stack(group.stack, workdir)}"
    threads = other_threads(group)
    for name, ranks, frames in threads[:MOST_THREADS]:
        of = "" if ranks == group.ranks else f" (rank {fold_ranks(ranks)})"
        yield f"  thread {_plain(name) or 'without a name'}{of}: {_stack(frames, workdir)}"
    if len(threads) > MOST_THREADS:
        yield f"  … {len(threads) - MOST_THREADS} more threads; --json has all of them"


def _stack(frames: tuple[Frame, ...], workdir: str) -> str:
    return " <- ".join(_plain(each) for each in shown_stack(frames, workdir))


def _collectives(group: StackGroup, workdir: str) -> Iterator[str]:
    for view in group.views:
        by_group: dict[str, list[Collective]] = {}
        for each in view.collectives:
            by_group.setdefault(each.group, []).append(each)
        if not by_group:
            yield f"  rank {view.rank}: no collectives recorded"
        names = {each.name: each.description for each in view.groups}
        for name, calls in by_group.items():
            words = f"{name} ({names[name]})" if names.get(name) else name
            yield f"  rank {view.rank}, group {_plain(words)}: {'; '.join(_call(each) for each in calls[-LAST:])}"
            if calls[-1].call_site:
                yield f"    {_stack(calls[-1].call_site, workdir)}"


def _call(call: Collective) -> str:
    state = "over" if call.is_retired else "pending"
    age = "" if call.age_s is None else f" for {call.age_s:.1f} s" if not call.is_retired else ""
    shapes = " ".join("x".join(map(str, shape)) or "scalar" for shape in call.input_sizes)
    what = " ".join(filter(None, (call.operation, shapes, ",".join(call.dtypes))))
    return _plain(f"#{call.sequence} {what} {state}{age}")


def _plain(text: str) -> str:
    """Return text of a rank as one line without control characters."""
    return visible_line(text)
