"""`pylaunch ps`: runs, live and past."""

from __future__ import annotations

import time
from pathlib import Path

import click

from pylaunch.cli import console, options
from pylaunch.cli.finding import adopt_all
from pylaunch.cli.listing import duration, row, standings
from pylaunch.errors import ExitCode
from pylaunch.store import runs


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Past runs too.")
@options.nodes_know
@options.as_json
def command(*, everything: bool, inventory: Path | None, as_json: bool) -> int:
    """List runs that are recorded here: the live ones, or with --all the past ones too."""
    if inventory is not None:
        adopt_all(inventory, past=everything)
    now = time.time()
    records = [record for record in runs.readable(console.say) if everything or record.outcome is None]
    rows = [
        row(record, answer, now)
        for record, answer in zip(records, standings(records), strict=True)
        if everything or answer.outcome is None
    ]
    if as_json:
        console.json_data(rows)
        return ExitCode.DONE
    if not rows:
        console.say("no run is live" + ("" if everything else "; past ones: pylaunch ps --all"))
        return ExitCode.DONE
    columns = ("run", "status", "ranks", "hosts", "created", "seconds", "command")
    shown = [{**each, "seconds": duration(float(str(each["seconds"])))} for each in rows]
    console.table(
        ("RUN", "STATUS", "RANKS", "HOSTS", "STARTED", "FOR", "COMMAND"),
        [[str(each[column]) for column in columns] for each in shown],
    )
    return ExitCode.DONE
