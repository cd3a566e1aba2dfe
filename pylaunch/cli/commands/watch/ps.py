"""`pylaunch ps`: list runs."""

import time
from collections.abc import Sequence
from pathlib import Path

import click

from pylaunch.errors import ExitCode
from pylaunch.inventory import load_cluster
from pylaunch.inventory.load import source_of
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import pylaunch
from pylaunch.runs.all_runs import Discovery, adopt_runs
from pylaunch.runs.status import RunReport, list_runs
from pylaunch.terminal import console, document, options
from pylaunch.terminal.flags.resolve_run import discovered
from pylaunch.terminal.views import run_data
from pylaunch.terminal.views.run_data import COLUMNS, doubt, part_cell, row, slurm_cell


@click.command()
@click.option("-a", "--all", "past", is_flag=True, help="Past runs too.")
@options.nodes_know
@options.as_json
def command(inventory: Path | None, past: bool, as_json: bool) -> int:
    """List runs that are recorded here: the live ones and those not known to be clean, or with --all past ones too."""
    content: dict[str, object] = {}
    found, where = Discovery((), frozenset(), {}), ""
    if inventory is not None:
        cluster = load_cluster(inventory)
        found = discovered(cluster)
        adopt_runs(found, past=past)
        where = f" of the user that logs in to {fold(name for name in cluster.names if name not in found.silent)}"
        content["hosts"] = document.hosts(cluster.names, found.silent, {})
    now = time.time()
    listed = list_runs(past=past, on_note=console.say, reached=found.reached)
    if as_json:
        document.show({**content, "runs": [run_data.summary(each, now) for each in listed]})
    elif listed:
        _show(listed, now)
    else:
        if inventory is None:
            asked_hosts = pylaunch("ps", "-i", str(source_of(None) or "INVENTORY"))
            where = f" among those recorded here; started elsewhere: {asked_hosts}"
        state, hint = ("", "") if past else (" is live", "; past ones: pylaunch ps --all")
        console.say(f"no run{state}{where}{hint}")
    return ExitCode.DONE


def _show(listed: Sequence[RunReport], now: float) -> None:
    columns: tuple[str, ...] = COLUMNS
    rows = [row(each, now) for each in listed]
    if any(each.record.plan.slurm_jobs for each in listed):
        columns = (*columns[:-1], "SLURM JOB", columns[-1])
        rows = [(*cells[:-1], slurm_cell(each), cells[-1]) for cells, each in zip(rows, listed, strict=True)]
    if any(each.record.plan.job.part is not None for each in listed):
        columns = (columns[0], "PART OF JOB", *columns[1:])
        rows = [(cells[0], part_cell(each), *cells[1:]) for cells, each in zip(rows, listed, strict=True)]
    console.table(columns, rows)
    if any(each.status.outcome is not None and doubt(each.status.outcome) for each in listed):
        console.say("\nhint: to end what a run left and prove its nodes clean, once they answer: pylaunch stop RUN")
