"""`pylaunch ps`: list runs."""

import time
from pathlib import Path

import click

from pylaunch.errors import ExitCode
from pylaunch.inventory import load_cluster
from pylaunch.inventory.load import source_of
from pylaunch.model.hostset import fold
from pylaunch.model.plan import base_of
from pylaunch.model.text.argv import pylaunch
from pylaunch.runs.all_runs import adopt_runs
from pylaunch.runs.status import list_runs
from pylaunch.terminal import console, document, options
from pylaunch.terminal.flags.resolve_run import discovered, find_each
from pylaunch.terminal.listing import COLUMNS, part_cell, row, slurm_cell
from pylaunch.terminal.views import run_data


@click.command()
@click.argument("job", required=False, metavar="[JOB]")
@options.role
@click.option("-a", "--all", "everything", is_flag=True, help="Past runs too.")
@options.nodes_know
@options.as_json
def command(job: str | None, *, role: str | None, everything: bool, inventory: Path | None, as_json: bool) -> int:
    """List runs that are recorded here: the live ones and those not known to be clean, or with --all past ones too.

    With JOB, the id of a job of several roles: all of its runs.
    """
    content: dict[str, object] = {}
    found, where = None, ""
    if inventory is not None:
        cluster = load_cluster(inventory)
        found = discovered(cluster)
        adopt_runs(found, past=everything)
        where = f" of the user that logs in to {fold(name for name in cluster.names if name not in found.silent)}"
        content["hosts"] = document.hosts(cluster.names, found.silent, {})
    now = time.time()
    chosen = None
    if job is not None or role is not None:
        chosen = {base_of(each.plan.run) for each in find_each(job, role, None, found=found).records}
    listed = list_runs(past=everything or job is not None, on_note=console.say)
    if chosen is not None:
        listed = [each for each in listed if base_of(each.record.plan.run) in chosen]
    if as_json:
        document.show({**content, "runs": [run_data.summary(each, now) for each in listed]})
        return ExitCode.DONE
    if not listed:
        if inventory is None:
            asked = pylaunch("ps", "-i", str(source_of(None) or "INVENTORY"))
            where = f" among those recorded here; started elsewhere: {asked}"
        console.say(f"no run is live{where}" + ("" if everything else "; past ones: pylaunch ps --all"))
        return ExitCode.DONE
    columns: tuple[str, ...] = COLUMNS
    rows = [row(each, now) for each in listed]
    if any(each.record.plan.slurm_jobs for each in listed):
        columns = (*columns[:-1], "SLURM JOB", columns[-1])
        rows = [(*cells[:-1], slurm_cell(each), cells[-1]) for cells, each in zip(rows, listed, strict=True)]
    if any(each.record.plan.job.part is not None for each in listed):
        columns = (columns[0], "PART OF JOB", *columns[1:])
        rows = [(cells[0], part_cell(each), *cells[1:]) for cells, each in zip(rows, listed, strict=True)]
    console.table(columns, rows)
    if any(each.status.outcome is not None and each.status.outcome.unproven for each in listed):
        console.say("\nhint: when the nodes of a run can be reached again, to prove it clean: pylaunch stop RUN")
    return ExitCode.DONE
