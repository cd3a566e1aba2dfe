"""`pylaunch logs`: what the ranks of a run wrote, read from their nodes."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError, ExitCode, UsageError
from pylaunch.model.outcome import Status
from pylaunch.model.run import RunRecord
from pylaunch.model.text.argv import pylaunch
from pylaunch.model.text.quantity import shown_size
from pylaunch.runs.logs import LogQuery, collect_logs, read_each, read_logs
from pylaunch.terminal import console, options
from pylaunch.terminal.flags.resolve_run import chosen, find_each, name_in_job, refuse_several
from pylaunch.terminal.views.live import Live
from pylaunch.transport.interrupts import InterruptSource, signals


@dataclass(frozen=True)
class LogFlags:
    """Flags of `logs` that choose output."""

    rank: str | None
    node: str | None
    tail: int | None
    launcher: bool
    follow: bool


@click.command()
@options.run
@options.nodes_know
@click.option("-f", "--follow", is_flag=True, help="Stay until the run ends; Ctrl-C leaves the run alone.")
@options.ranks
@options.on_nodes
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Begin with the last N lines of each log.")
@click.option(
    "--save-logs",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Copy all logs to DIR/HOST/RANK.out and .err instead of showing them.",
)
@click.option("--launcher", is_flag=True, help="What the nodes' launchers (torchrun) say, instead of the ranks.")
def command(run: str | None, *, inventory: Path | None, save_logs: Path | None, **asked: Any) -> int:
    """Show what the ranks of RUN (the newest one without) wrote: their stdout on stdout, their stderr on stderr.

    RUN may be a job of several roles: the output of all of its runs, each line with its role.
    """
    flags = LogFlags(**asked)
    records = find_each(run, inventory, newest=True)
    if save_logs is not None:
        _refuse_beside_save_logs(flags)
        places = [save_logs if len(records) == 1 else save_logs / name_in_job(record) for record in records]
        copying = [partial(copy_logs, each, place) for each, place in zip(records, places, strict=True)]
        return _read_parts(records, copying, at_once=False)
    for option, value in (("--rank", flags.rank), ("--node", flags.node)):
        if value is not None:
            refuse_several(records, option, value)
    started = [each for each in records if each.outcome is None or each.outcome.status is not Status.REFUSED]
    if not started:
        refused = records[0].plan.run
        raise ClusterNotReadyError(
            f"run {refused} has no logs: no rank of it was started", hint=pylaunch("status", refused)
        )
    label = "" if len(records) == 1 else f"{{:<{max(len(name_in_job(each)) for each in records)}}} "
    return _read_parts(started, [partial(_read, each, flags, label) for each in started], at_once=flags.follow)


def _read_parts(
    records: Sequence[RunRecord], readers: Sequence[Callable[[InterruptSource], None]], *, at_once: bool
) -> int:
    """Call a reader for each run. Of several, one whose nodes cannot be reached or do not know it hides no other."""
    if len(readers) == 1:
        readers[0](signals)
        return ExitCode.DONE
    failed: list[ClusterNotReadyError] = []

    def tried(record: RunRecord, read: Callable[[InterruptSource], None], interrupts: InterruptSource) -> None:
        try:
            read(interrupts)
        except ClusterNotReadyError as error:
            console.say(f"{name_in_job(record)}: {error.message}")
            failed.append(error)

    each = [partial(tried, record, read) for record, read in zip(records, readers, strict=True)]
    read_each(each, signals, at_once=at_once)
    if len(failed) == len(readers):
        raise failed[0]
    return ExitCode.CLUSTER_NOT_READY if failed else ExitCode.DONE


def _read(record: RunRecord, flags: LogFlags, label: str, interrupts: InterruptSource) -> None:
    """Show the output of one run; `label` is a format for the name of its part."""
    nodes, streams = chosen(record.plan, flags.rank, flags.node, launcher=flags.launcher)
    query = LogQuery(nodes, streams, flags.follow, flags.tail)
    live = Live(record.plan, label=label and label.format(name_in_job(record)))
    read_logs(record, query, live.show, interrupts)


def _refuse_beside_save_logs(flags: LogFlags) -> None:
    """Raises UsageError for flags that choose what is shown."""
    beside = [f"--{name}" for name, value in vars(flags).items() if value not in (None, False)]
    if beside:
        raise UsageError(f"--save-logs cannot be combined with {beside[0]}", hint="pylaunch logs --save-logs DIR")


def copy_logs(record: RunRecord, directory: Path, interrupts: InterruptSource = signals) -> None:
    """Copy all logs to `directory`. Raises UsageError where a file cannot be written."""
    collected = collect_logs(record, directory, lambda notice: console.say(notice.text), interrupts)
    console.say(f"collected {len(collected.files)} logs ({shown_size(collected.size)}) in {directory}")
