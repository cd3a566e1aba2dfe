"""`pylaunch status`: one run, node by node."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click

from pylaunch.cli import console
from pylaunch.cli.flags import options
from pylaunch.cli.flags.resolve_run import find
from pylaunch.cli.views import document, run_data
from pylaunch.cli.views.listing import row, standings
from pylaunch.cli.views.live import counted, show_outcome
from pylaunch.cli.views.proving import is_in_doubt, prove_again
from pylaunch.cli.views.watching import is_settled, watch_attempts
from pylaunch.errors import ExitCode
from pylaunch.launch.existing.attach import Standing
from pylaunch.launch.start.slowness import slow_nodes
from pylaunch.model.run import RunRecord
from pylaunch.store import runs


@click.command()
@options.run
@options.nodes_know
@click.option("--watch", is_flag=True, help="Show it live until it ends; Ctrl-C leaves the run alone.")
@options.as_json
def command(run: str | None, *, inventory: Path | None, watch: bool, as_json: bool) -> int:
    """Show RUN (an id, or the beginning of one; the only live one without): nodes, ranks, how it stands or ended.

    With --watch: what its nodes tell now, on a terminal as a board, else as a line when something changes, or as
    JSON, one object a line; at the end, how it ended.
    """
    record = find(run, inventory)
    if watch and (record.outcome is None or not is_settled(record)):
        last = watch_attempts(record, as_json=as_json)
        if last is None:
            console.say(f"run {record.plan.run} goes on")
            return ExitCode.DONE
        record = last
    (answer,) = standings([record])
    if answer.outcome is not None and is_in_doubt(replace(record, outcome=answer.outcome)):
        answer = replace(answer, outcome=prove_again(record, answer.outcome))
    if as_json:
        document.show(run_data.details(record, answer), is_stream=watch)
    else:
        _show(record, answer)
        if watch and inventory is not None and record.plan.job.max_restarts:
            console.say(f"\nhint: started again elsewhere? pylaunch ps -i {inventory}")
    return ExitCode.DONE


def _show(record: RunRecord, answer: Standing) -> None:
    run, status, _, hosts, created, lasted, words = row(record, answer, time.time())
    controller = runs.controller(record.plan.run)
    nodes = run_data.node_seconds(record)
    console.data(f"run {run}: {status}, {counted(record.plan.world_size, 'rank')} on {hosts}")
    console.data(f"  {words}")
    console.data(f"  started {created}, for {lasted}")
    if answer.outcome is None:
        console.data(f"  controller: {f'process {controller} here' if controller else 'none here'}")
    if seconds := run_data.start_seconds(record):
        console.data("  start: " + ", ".join(f"{name} {value:.3f} s" for name, value in seconds.items()))
    for host, times in nodes.items():
        console.data(f"    {host}: " + ", ".join(f"{name} {value:.3f} s" for name, value in times.items()))
    for slow in slow_nodes(nodes):
        console.data(f"  slow: {slow}")
    for node in answer.nodes:
        ranks = f", ranks {', '.join(map(str, node.running))}" if node.running else ""
        reason = f" ({node.reason})" if node.reason else ""
        console.data(f"  {node.host}: {node.phase}{ranks}{reason}")
    if answer.outcome is not None:
        show_outcome(record.plan, answer.outcome, record.ran_s(answer.outcome))
