"""`pylaunch logs`: what the ranks of a run wrote, read from their nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from pylaunch.cli.flags import options
from pylaunch.cli.flags.resolve_run import find
from pylaunch.cli.flags.selection import Grep, chosen
from pylaunch.cli.views import collecting
from pylaunch.cli.views.live import Live
from pylaunch.errors import ExitCode, UsageError
from pylaunch.launch.existing.attach import LogQuery, read_logs
from pylaunch.launch.follow.watcher import Watcher


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
    help="Bring all logs here, as DIR/HOST/RANK.out and .err, instead of showing them.",
)
@click.option("--launcher", is_flag=True, help="What the nodes' launchers (torchrun) say, instead of the ranks.")
def command(run: str | None, *, inventory: Path | None, collect: Path | None, follow: bool, **asked: object) -> int:
    """Show what the ranks of RUN (the only live one without) wrote: their stdout on stdout, their stderr on stderr."""
    since = None if asked["since"] is None else options.since("--since", str(asked["since"]))
    record = find(run, inventory)
    if collect is not None:
        _refuse_beside_collect(asked, follow=follow)
        collecting.collect(record, collect)
        return ExitCode.DONE
    plan = record.plan
    nodes, streams = chosen(plan, _text(asked["rank"]), _text(asked["node"]), launcher=bool(asked["launcher"]))
    watcher: Watcher = Live(plan, None)
    if (pattern := _text(asked["grep"])) is not None:
        watcher = Grep(watcher, pattern)
    tail = asked["tail"] if isinstance(asked["tail"], int) else None
    read_logs(record, watcher, LogQuery(nodes, streams, follow, tail, since))
    return ExitCode.DONE


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _refuse_beside_collect(asked: Mapping[str, object], *, follow: bool) -> None:
    """Raises UsageError for flags that choose what is shown."""
    beside = [f"--{name}" for name, value in asked.items() if value not in (None, False)] + ["--follow"] * follow
    if beside:
        raise UsageError(f"--collect brings all logs, so {beside[0]} means nothing", hint="pylaunch logs --collect DIR")
