"""`pylaunch history`: runs and nodes over all attempts that ended on this machine."""

import csv
import io
import statistics
import time
from collections.abc import Iterable

import click

from pylaunch.errors import ExitCode
from pylaunch.features.history import database
from pylaunch.features.history.summary import AttemptRow, NodeSummary, RunSummary, by_node, by_run, of_recent_runs
from pylaunch.terminal import console, document, options
from pylaunch.terminal.listing import duration, moment
from pylaunch.terminal.views.live import counted

DAY_S = 86400.0
MOST_SHOWN = 20
FORMULA = ("=", "+", "-", "@")
"""Beginnings of a cell that a spreadsheet would calculate."""


@click.command()
@click.option(
    "--days", type=click.FloatRange(min=0), default=30.0, show_default=True, help="Attempts of this many days."
)
@click.option("--csv", "as_csv", is_flag=True, help="One row for each attempt, on stdout.")
@options.as_json
def command(*, days: float, as_csv: bool, as_json: bool) -> int:
    """Show which nodes failed how often and why, how long starts took, and the time that failures cost.

    GOODPUT is the share of the time, from the first attempt of a run to its last end, in which ranks ran.
    """
    database.add(database.missing(), console.say)
    since, known = time.time() - days * DAY_S, database.rows(0.0)
    rows = [row for row in known if row.created >= since]
    runs, nodes = by_run(of_recent_runs(known, since)), by_node(rows)
    if as_json:
        document.show(_data(rows, runs, nodes))
    elif as_csv:
        console.data(_csv(rows))
    else:
        _show(runs, nodes, days)
    return ExitCode.DONE


def _show(runs: list[RunSummary], nodes: list[NodeSummary], days: float) -> None:
    if not runs:
        console.say(f"no run has ended in the last {days:g} days")
        return
    cells = [
        (
            each.run, str(each.attempts), each.status, moment(each.created),
            "" if each.start_s is None else f"{each.start_s:.1f} s",
            duration(each.ran_s), duration(each.lost_s), f"{each.goodput:.0%}",
        )
        for each in runs[:MOST_SHOWN]
    ]  # fmt: skip
    console.table(("RUN", "ATTEMPTS", "STATUS", "BEGAN", "START", "RAN", "LOST", "GOODPUT"), cells)
    if len(runs) > MOST_SHOWN:
        console.say(f"and {len(runs) - MOST_SHOWN} older runs: --json or --csv has all")
    if nodes:
        console.data("")
        kinds = [", ".join(f"{count} x {kind}" for kind, count in each.kinds) for each in nodes[:MOST_SHOWN]]
        named = [
            (each.host, str(each.failures), moment(each.last), kind) for each, kind in zip(nodes, kinds, strict=False)
        ]
        console.table(("NODE", "FAILURES", "LAST", "CAUSES"), named)
    starts = [each.start_s for each in runs if each.start_s is not None]
    middle = f", median start {statistics.median(starts):.1f} s" if starts else ""
    console.say(
        f"{counted(len(runs), 'run')} in {days:g} days{middle}, "
        f"{duration(sum(each.lost_s for each in runs))} without ranks"
    )


def _data(rows: list[AttemptRow], runs: list[RunSummary], nodes: list[NodeSummary]) -> dict[str, object]:
    return {
        "runs": [
            {
                "run": each.run, "attempts": each.attempts, "status": each.status,
                "created": document.moment(each.created), "seconds": each.seconds, "start_seconds": each.start_s,
                "ran_seconds": each.ran_s, "lost_seconds": each.lost_s, "goodput": each.goodput,
            }
            for each in runs
        ],
        "failing_nodes": [
            {
                "node": each.host, "failures": each.failures, "last": document.moment(each.last),
                "causes": [{"kind": kind, "failures": count} for kind, count in each.kinds],
            }
            for each in nodes
        ],
        "attempts": [
            {
                "run": each.attempt, "status": each.status, "created": document.moment(each.created),
                "ended": document.moment(each.ended), "ranks": each.ranks, "nodes": each.nodes,
                "start_seconds": each.start_s, "ran_seconds": each.ran_s, "kind": each.kind or None,
                "node": each.host or None, "address": each.address or None, "fault": each.fault or None,
                "reason": each.reason,
            }
            for each in rows
        ],
    }  # fmt: skip


def _csv(rows: Iterable[AttemptRow]) -> str:
    text = io.StringIO()
    names = [*AttemptRow.__annotations__]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(getattr(row, name)) for name in names])
    return text.getvalue()


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
