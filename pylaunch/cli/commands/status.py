"""`pylaunch status`: one run, node by node."""

from __future__ import annotations

import time
from pathlib import Path

import click

from pylaunch.cli import console, options
from pylaunch.cli.finding import find
from pylaunch.cli.listing import duration, row, standings
from pylaunch.cli.live import counted, show_outcome
from pylaunch.cli.watching import is_settled, watch_attempts
from pylaunch.errors import ExitCode
from pylaunch.launch.attach import Standing
from pylaunch.launch.slowness import slow_nodes
from pylaunch.model.outcome import Outcome
from pylaunch.model.run import EventKind, RunRecord
from pylaunch.store import runs


@click.command()
@options.run
@options.nodes_know
@click.option("--watch", is_flag=True, help="Show it live until it ends; Ctrl-C leaves the run alone.")
@options.as_json
def command(run: str | None, *, inventory: Path | None, watch: bool, as_json: bool) -> int:
    """Show RUN (an id, or the beginning of one; the newest without): nodes, ranks, how it stands or ended.

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
    if as_json:
        (console.json_line if watch else console.json_data)(_data(record, answer))
    else:
        _show(record, answer)
        if watch and inventory is not None and record.plan.job.max_restarts:
            console.say(f"\nhint: started again elsewhere? pylaunch ps -i {inventory}")
    return ExitCode.DONE


def _data(record: RunRecord, answer: Standing) -> dict[str, object]:
    return {
        **row(record, answer, time.time()),
        "nodes": [
            {"host": node.host, "phase": node.phase, "running": node.running, "reason": node.reason}
            for node in answer.nodes
        ],
        "controller": runs.controller(record.plan.run),
        "start_seconds": _start_seconds(record),
        "node_seconds": _node_seconds(record),
        "outcome": None if answer.outcome is None else _outcome(answer.outcome),
    }


def _show(record: RunRecord, answer: Standing) -> None:
    summary = row(record, answer, time.time())
    controller = runs.controller(record.plan.run)
    nodes = _node_seconds(record)
    console.data(
        f"run {summary['run']}: {summary['status']}, {counted(record.plan.world_size, 'rank')} on {summary['hosts']}"
    )
    console.data(f"  {summary['command']}")
    console.data(f"  started {summary['created']}, for {duration(float(str(summary['seconds'])))}")
    if answer.outcome is None:
        console.data(f"  controller: {f'process {controller} here' if controller else 'none here'}")
    if seconds := _start_seconds(record):
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
        show_outcome(record.plan, answer.outcome)


def _start_seconds(record: RunRecord) -> dict[str, float]:
    released = [event for event in record.events if event.kind is EventKind.RELEASED and event.host is None]
    return dict(released[-1].seconds) if released else {}


def _node_seconds(record: RunRecord) -> dict[str, dict[str, float]]:
    """What each phase of the start took on each node; `exec` is from the common instant to its first rank's exec."""
    seconds: dict[str, dict[str, float]] = {}
    for event in record.events:
        if event.host is not None and event.kind in (EventKind.PREPARED, EventKind.RELEASED):
            seconds.setdefault(event.host, {}).update(event.seconds)
    return seconds


def _outcome(outcome: Outcome) -> dict[str, object]:
    failure = outcome.first_failure
    return {
        "status": outcome.status.value,
        "reason": outcome.reason,
        "first_failure": None
        if failure is None
        else {
            "host": failure.host,
            "rank": failure.rank,
            "exit_code": failure.exit_code,
            "signal": failure.signal,
            "time": failure.time,
            "last_lines": failure.last_lines,
        },
        "refusals": outcome.refusals,
        "leftovers": outcome.leftovers,
        "unproven": outcome.unproven,
    }
