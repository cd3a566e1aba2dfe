"""`pylaunch logs`: what the ranks of a run wrote, read from their nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import dataclass
from pylaunch.cli.views import collecting
from pylaunch.errors import ClusterNotReadyError, ExitCode, UsageError
from pylaunch.model.outcome import Status
from pylaunch.model.text.argv import pylaunch
from pylaunch.runs.connect.interruptible import signals
from pylaunch.runs.existing.logs import LogQuery
from pylaunch.runs.logs import follow_logs
from pylaunch.terminal import options
from pylaunch.terminal.flags.resolve_run import find
from pylaunch.terminal.flags.selection import chosen, pattern
from pylaunch.terminal.views.live import Live


@dataclass(frozen=True)
class LogFlags:
    """Flags of `logs` that choose output."""

    rank: str | None
    node: str | None
    grep: str | None
    tail: int | None
    since: str | None
    launcher: bool
    follow: bool


@click.command()
@options.run
@options.nodes_know
@click.option("-f", "--follow", is_flag=True, help="Stay until the run ends; Ctrl-C leaves the run alone.")
@click.option("--rank", metavar="RANKS", help="Only these ranks: 3 or 0-3,7.")
@click.option("--node", metavar="HOSTS", help="Only ranks on these nodes: n1,n3 or gpu[01-03,07].")
@click.option("--grep", metavar="REGEX", help="Only lines in which this is found.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Begin with the last N lines of each log.")
@click.option("--since", metavar="WHEN", help="Only what was written since: 10m, 1h30m ago or 2026-03-01T14:30.")
@click.option(
    "--collect",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Copy all logs to DIR/HOST/RANK.out and .err instead of showing them.",
)
@click.option("--launcher", is_flag=True, help="What the nodes' launchers (torchrun) say, instead of the ranks.")
def command(run: str | None, *, inventory: Path | None, collect: Path | None, **asked: Any) -> int:
    """Show what the ranks of RUN (the only live one without) wrote: their stdout on stdout, their stderr on stderr."""
    flags = LogFlags(**asked)
    since = None if flags.since is None else options.since("--since", flags.since)
    record = find(run, inventory)
    if collect is not None:
        _refuse_beside_collect(flags)
        collecting.collect(record, collect)
        return ExitCode.DONE
    if record.outcome is not None and record.outcome.status is Status.REFUSED:
        raise ClusterNotReadyError(
            f"run {record.plan.run} has no logs: no rank of it was started", hint=pylaunch("status", record.plan.run)
        )
    nodes, streams = chosen(record.plan, flags.rank, flags.node, launcher=flags.launcher)
    query = LogQuery(nodes, streams, flags.follow, flags.tail, since)
    follow_logs(record, query, Live(record.plan).show, signals, pattern=pattern(flags.grep))
    return ExitCode.DONE


def _refuse_beside_collect(flags: LogFlags) -> None:
    """Raises UsageError for flags that choose what is shown."""
    beside = [f"--{name}" for name, value in vars(flags).items() if value not in (None, False)]
    if beside:
        raise UsageError(f"--collect cannot be combined with {beside[0]}", hint="pylaunch logs --collect DIR")
