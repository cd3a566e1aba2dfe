"""`pylaunch stacks`: what each rank of a run is doing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import asdict, dataclass
from pylaunch.errors import ExitCode
from pylaunch.features.stacks.page import lines, stack_groups
from pylaunch.model.outcome import Status
from pylaunch.model.run import RunRecord
from pylaunch.protocol.examination import RankView
from pylaunch.runs.stacks import StacksReport, stacks
from pylaunch.terminal import console, document, hints, options
from pylaunch.terminal.flags.resolve_run import chosen, find, parse_ranks
from pylaunch.transport.interrupts import signals


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


def show(report: StacksReport, *, collectives: bool) -> None:
    """Print the ranks by stack, then the nodes that did not report theirs."""
    for line in lines(report, collectives=collectives):
        console.data(line)
    for host, reason in report.missing.items():
        console.say(f"{host}: {reason}")
    outcome = report.record.outcome
    if not report.views and outcome is not None and outcome.status is Status.FAILED:
        hints.say(f"pylaunch explain {report.record.plan.run}")


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
    }
