"""`pylaunch stacks`: what each rank of a run is doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import dataclass
from pylaunch.cli.views import rank_stacks
from pylaunch.errors import ClusterNotReadyError, ExitCode, UsageError
from pylaunch.model.diagnosis.hang import HangFinding
from pylaunch.model.hostset import fold_ranks
from pylaunch.model.job import RolePart
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.interruptible import signals
from pylaunch.runs.recorder_dumps import DumpsJudged, judge_dumps
from pylaunch.runs.stacks import StacksReport, stacks
from pylaunch.terminal import console, document, options
from pylaunch.terminal.flags.resolve_run import find_each, name_in_job
from pylaunch.terminal.flags.selection import chosen, ranks_of


@dataclass(frozen=True)
class StackFlags:
    """Flags of `stacks` that choose ranks, and what is shown of them."""

    rank: str | None = None
    node: str | None = None
    collectives: bool = False


@click.command()
@options.run
@options.role
@options.nodes_know
@click.option("--rank", metavar="RANKS", help="Only these ranks: 3 or 0-3,7.")
@click.option("--node", metavar="HOSTS", help="Only ranks on these nodes: n1,n3 or gpu[01-03,07].")
@click.option("--collectives", is_flag=True, help="Also show the last collectives of each process group.")
@click.option(
    "--dumps",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Judge the flight recorder dumps in DIR instead, one file for each rank.",
)
@options.as_json
def command(
    run: str | None, *, role: str | None, inventory: Path | None, dumps: Path | None, as_json: bool, **asked: Any
) -> int:
    """Show what each rank of RUN (the only live one without) is doing, with no change to the script.

    Ranks with the same stack are shown once, the innermost function first. Programs other than Python show their
    process state and system call. A run that failed shows what its ranks did before pylaunch stopped them.
    RUN may be a job of several roles: the stacks of all of its runs.
    """
    flags = StackFlags(**asked)
    if dumps is not None:
        if run is not None or role is not None or flags != StackFlags():
            raise UsageError(
                "--dumps reads files of any run; RUN, --role, --rank, --node and --collectives have no effect"
            )
        judged = judge_dumps(dumps)
        if as_json:
            document.show(_content(judged))
        else:
            _show(judged)
        return ExitCode.DONE
    named = find_each(run, role, inventory)
    for option, value in (("--rank", flags.rank), ("--node", flags.node)):
        if value is not None:
            named.refuse_several(option, value)
    if named.job is None:
        report = _report(named.records[0], flags)
        if as_json:
            document.show(rank_stacks.content(report))
        else:
            rank_stacks.show(report, collectives=flags.collectives)
        return ExitCode.CLUSTER_NOT_READY if report.missing else ExitCode.DONE
    return _show_job(named.job, named.records, flags, as_json=as_json)


def _report(record: RunRecord, flags: StackFlags) -> StacksReport:
    nodes, _ = chosen(record.plan, flags.rank, flags.node, launcher=False)
    wanted = range(record.plan.world_size) if flags.rank is None else ranks_of(flags.rank, record.plan)
    ranks = {each.rank for there in nodes for each in there.ranks}.intersection(wanted)
    return stacks(record, ranks, signals, call_sites=flags.collectives)


def _show_job(job: RolePart, records: Sequence[RunRecord], flags: StackFlags, *, as_json: bool) -> int:
    """Show the runs of a job. One whose nodes cannot be reached hides no other."""
    contents: list[Mapping[str, object]] = []
    is_complete = True
    for record in records:
        if not as_json:
            console.data(f"{name_in_job(record)}:")
        try:
            report = _report(record, flags)
        except ClusterNotReadyError as error:
            contents.append({"run": record.plan.run, "unreachable": error.message})
            console.say(f"{name_in_job(record)}: {error.message}")
            is_complete = False
            continue
        contents.append({**rank_stacks.content(report), "unreachable": None})
        is_complete = is_complete and not report.missing
        if not as_json:
            rank_stacks.show(report, collectives=flags.collectives)
    document.show({"job": job.job, "runs": contents})
    return ExitCode.DONE if is_complete else ExitCode.CLUSTER_NOT_READY


def _show(judged: DumpsJudged) -> None:
    """Print the findings, the best one with its evidence."""
    for name, why in judged.refused.items():
        console.say(f"{name}: skipped: {why}")
    if judged.absent:
        console.say(f"no dump of ranks {fold_ranks(judged.absent)}")
    best = judged.findings[0]
    console.data(f"{best.text} ({best.confidence.value} confidence)")
    for line in best.evidence:
        console.data(f"  {line}")
    if best.changed_by:
        console.data(f"  would change this: {best.changed_by}")
    for finding in judged.findings[1:]:
        console.data(f"also: {finding.text} ({finding.confidence.value} confidence)")


def _content(judged: DumpsJudged) -> dict[str, object]:
    """Return the fields of the document of `stacks --dumps --json`."""
    return {
        "dumps": list(judged.ranks),
        "absent": list(judged.absent),
        "findings": [_finding(finding) for finding in judged.findings],
    }


def _finding(finding: HangFinding) -> dict[str, object]:
    return {
        "kind": finding.kind.value,
        "text": finding.text,
        "confidence": finding.confidence.value,
        "ranks": list(finding.ranks),
        "evidence": list(finding.evidence),
        "changed_by": finding.changed_by or None,
    }
