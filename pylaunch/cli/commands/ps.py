"""`pylaunch ps`: runs, live and past."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click

from pylaunch.cli import console
from pylaunch.cli.flags import options
from pylaunch.cli.flags.resolve_run import adopt_all
from pylaunch.cli.views import document, run_data
from pylaunch.cli.views.listing import row, standings
from pylaunch.cli.views.proving import is_in_doubt
from pylaunch.errors import ExitCode
from pylaunch.store import runs


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Past runs too.")
@options.nodes_know
@options.as_json
def command(*, everything: bool, inventory: Path | None, as_json: bool) -> int:
    """List runs that are recorded here: the live ones and those not known to be clean, or with --all past ones too."""
    content: dict[str, object] = {}
    if inventory is not None:
        asked = adopt_all(inventory, past=everything)
        content["hosts"] = document.hosts(asked.hosts, asked.found.silent, {})
    now = time.time()
    records = [
        record for record in runs.readable(console.say) if everything or record.outcome is None or is_in_doubt(record)
    ]
    shown = [
        (record, answer)
        for record, answer in zip(records, standings(records), strict=True)
        if everything or answer.outcome is None or is_in_doubt(replace(record, outcome=answer.outcome))
    ]
    if as_json:
        document.show({**content, "runs": [run_data.summary(*each, now) for each in shown]})
        return ExitCode.DONE
    if not shown:
        console.say("no run is live" + ("" if everything else "; past ones: pylaunch ps --all"))
        return ExitCode.DONE
    columns = ("RUN", "STATUS", "RANKS", "HOSTS", "STARTED", "FOR", "COMMAND")
    console.table(columns, [row(*each, now) for each in shown])
    if any(answer.outcome is not None and answer.outcome.unproven for _, answer in shown):
        console.say("\nhint: pylaunch stop RUN proves a run clean when its nodes can be reached again")
    return ExitCode.DONE
