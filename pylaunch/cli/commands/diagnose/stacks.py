"""`pylaunch stacks`: what each rank of a run is doing."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import asdict, dataclass
from pylaunch.errors import ExitCode
from pylaunch.model.hostset import fold, fold_ranks
from pylaunch.model.outcome import Status
from pylaunch.model.run import RunRecord
from pylaunch.model.text.quantity import counted
from pylaunch.model.text.sanitise import visible_line
from pylaunch.protocol.examination import Collective, Frame, RankView
from pylaunch.runs.connect.interruptible import signals
from pylaunch.runs.stacks import StacksReport, stacks
from pylaunch.terminal import console, document, hints, options
from pylaunch.terminal.flags.resolve_run import chosen, find, parse_ranks
from pylaunch.verdict.stack_groups import (
    PROCESS_STATES,
    StackGroup,
    child_groups,
    other_threads,
    shown_stack,
    stack_groups,
)


@dataclass(frozen=True)
class StackFlags:
    """Flags of `stacks` that choose ranks, and what is shown of them."""

    rank: str | None = None
    node: str | None = None
    collectives: bool = False


@click.command()
@options.run
@options.nodes_know
@options.ranks
@options.on_nodes
@click.option("--collectives", is_flag=True, help="Also show the last collectives of each process group.")
@options.as_json
def command(run: str | None, *, inventory: Path | None, as_json: bool, **asked: Any) -> int:
    """Show what each rank of RUN (the only live one without) is doing, with no change to the script.

    Ranks with the same stack are shown once, the innermost function first. Programs other than Python show their
    process state and system call. A run that failed shows what its ranks did before pylaunch stopped them.
    """
    flags = StackFlags(**asked)
    report = _report(find(run, inventory), flags)
    if as_json:
        document.show(content(report))
    else:
        show(report, collectives=flags.collectives)
    return ExitCode.CLUSTER_NOT_READY if report.missing else ExitCode.DONE


def _report(record: RunRecord, flags: StackFlags) -> StacksReport:
    nodes, _ = chosen(record.plan, flags.rank, flags.node, launcher=False)
    wanted = range(record.plan.world_size) if flags.rank is None else parse_ranks(flags.rank, record.plan)
    ranks = {each.rank for there in nodes for each in there.ranks}.intersection(wanted)
    return stacks(record, ranks, signals, call_sites=flags.collectives)


MOST_THREADS = 12
"""Other threads that are shown for one group of ranks."""

MOST_PIDS = 4
"""Process ids that are shown of children that do the same."""

LAST = 3
"""Collectives that are shown for each process group."""


def show(report: StacksReport, *, collectives: bool) -> None:
    """Print the ranks by stack, then the nodes that did not report theirs."""
    for line in lines(report, collectives=collectives):
        console.data(line)
    for host, reason in report.missing.items():
        console.say(f"{host}: {reason}")
    outcome = report.record.outcome
    if not report.views and outcome is not None and outcome.status is Status.FAILED:
        hints.say(f"pylaunch explain {report.record.plan.run}")


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
    yield from _children(group)


def _children(group: StackGroup) -> Iterator[str]:
    groups = child_groups(group)
    for each in groups[:MOST_THREADS]:
        is_of_one = len(group.views) == 1
        pids = ", ".join(str(pid) if is_of_one else f"{pid} (rank {rank})" for rank, pid in each.pids[:MOST_PIDS])
        more = f" and {len(each.pids) - MOST_PIDS} more" if len(each.pids) > MOST_PIDS else ""
        yield f"  child {_plain(each.name)}, pid {pids}{more}: in {_plain(', '.join(each.waits))}"
    listed = sum(len(each.pids) for each in groups[:MOST_THREADS])
    if (rest := sum(view.child_count for view in group.views) - listed) > 0:
        yield f"  … {rest} more of the processes that the {'ranks' if len(group.views) > 1 else 'rank'} started"


def _stack(frames: tuple[Frame, ...], workdir: str) -> str:
    return " <- ".join(_plain(each.text) for each in shown_stack(frames, workdir))


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


def content(report: StacksReport) -> Mapping[str, object]:
    """Return the document: the folded groups and every view."""
    plan = report.record.plan
    return {
        "run": plan.run,
        "recorded": report.is_recorded,
        "groups": [
            {"ranks": list(group.ranks), "stack": [str(frame) for frame in group.stack]}
            for group in stack_groups(report.views)
        ],
        "ranks": [_view(view) for view in report.views],
        "hosts": document.hosts((node.host.name for node in plan.nodes), report.missing, {}),
    }


def _view(view: RankView) -> dict[str, object]:
    return {
        "rank": view.rank,
        "on": view.host,
        "time": document.moment(view.time),
        "uncertainty_s": round(view.uncertainty_s, 6),
        "pid": view.pid,
        "state": view.state or None,
        "cpu_s": view.cpu_s,
        "main_cpu_s": view.main_cpu_s,
        "silent_s": view.silent_s,
        "step": view.step,
        "wchan": view.wchan or None,
        "syscall": view.syscall or None,
        "source": view.source or None,
        "note": view.note or None,
        "threads": [asdict(thread) for thread in view.threads],
        "process_groups": [asdict(group) for group in view.groups],
        "collectives": [asdict(each) for each in view.collectives],
        "children": [asdict(child) for child in view.children],
        "child_count": view.child_count,
    }
