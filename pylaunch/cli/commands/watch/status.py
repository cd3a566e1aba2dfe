"""`pylaunch status`: one run, node by node."""

import time
from pathlib import Path

import click

from pylaunch.cli.views.status import progress, watch_attempts
from pylaunch.errors import ExitCode, UsageError
from pylaunch.model.hostset import fold_ranks
from pylaunch.model.text.argv import pylaunch
from pylaunch.model.text.quantity import counted
from pylaunch.runs.status import RunReport, previous_attempt, report, start_seconds
from pylaunch.store import runs
from pylaunch.terminal import console, document, options
from pylaunch.terminal.flags.resolve_run import find
from pylaunch.terminal.views import run_data
from pylaunch.terminal.views.board import Board, Pace
from pylaunch.terminal.views.outcome import show_hang, show_outcome
from pylaunch.terminal.views.processes import show_proofs
from pylaunch.terminal.views.run_data import row, slurm_cell


@click.command()
@options.run
@options.nodes_know
@click.option("--watch", is_flag=True, help="Show it live until it ends; Ctrl-C leaves the run alone.")
@click.option("--verbose", "-v", is_flag=True, help="Also rejected causes of a failure, and facts that are missing.")
@options.as_json
def command(run: str | None, *, inventory: Path | None, watch: bool, verbose: bool, as_json: bool) -> int:
    """Show RUN (an id, or the beginning of one; the only live one without): nodes, ranks, state or outcome.

    With --watch: its progress as the nodes report it, on a terminal as a board, else as a line when something changes;
    at the end, its outcome. For programs, pylaunch attach --json has each event.
    """
    if watch and as_json:
        raise UsageError("--watch is for people", hint=pylaunch("attach", "--json", *filter(None, (run,))))
    record = find(run, inventory)
    if watch:
        last = watch_attempts(record)
        if last is None:
            console.say(f"run {record.plan.run} continues")
            return ExitCode.DONE
        record = runs.read(last)
    board = Board(record.plan, previous_attempt(record.plan))
    known = report(record, console.say, board.add)
    board.pace = Pace()  # A rate of marks that were made before has the precision of their dates: too little.
    show_proofs(record.plan.run, known.proofs)
    if as_json:
        document.show({**run_data.details(known), **progress(board, time.time())})
    else:
        _show(known, board, verbose=verbose)
    return ExitCode.DONE


def _show(known: RunReport, board: Board, *, verbose: bool) -> None:
    record, answer = known.record, known.status
    _show_run(known)
    if seconds := start_seconds(record):
        console.data("  start: " + ", ".join(f"{name} {value:.3f} s" for name, value in seconds.items()))
    for node in answer.nodes:
        ranks = f", {'rank' if len(node.running) == 1 else 'ranks'} {fold_ranks(node.running)}" if node.running else ""
        reason = f" ({node.reason})" if node.reason else ""
        console.data(f"  {node.host}: {node.phase}{ranks}{reason}")
    for line in board.lines(time.time())[1:] + board.output():
        console.data(line)
    if (hang := record.last_hang) is not None:
        if answer.outcome is None:
            show_hang(hang)
        else:
            console.say(f"before it ended: {hang.text}")
            console.quote(hang.lines)
    if answer.outcome is not None:
        ran_s = record.ran_s(answer.outcome)
        show_outcome(record.plan, answer.outcome, ran_s, verbose=verbose, is_past=True)


def _show_run(known: RunReport) -> None:
    """Print what is known without the nodes, and the state that they report."""
    plan = known.record.plan
    run, status, _, hosts, created, lasted, words = row(known, time.time())
    console.data(f"run {run}: {status}, {counted(plan.world_size, 'rank')} on {hosts}")
    console.data(f"  {words}")
    console.data(f"  started {created}, for {lasted}")
    if plan.slurm_jobs:
        ends = "ends with the run" if plan.submitted_job else "stays when the run ends"
        console.data(f"  Slurm job {slurm_cell(known)}, {ends}")
    if known.status.outcome is None:
        pid = known.controller
        state = f", stopped (Ctrl-Z or SIGSTOP); to resume it: kill -CONT {pid}" if known.has_stopped_controller else ""
        elsewhere = f"on another machine that has this record; the run was started by {known.record.started_by}"
        where = "none here" if pid is None else elsewhere if pid == runs.ELSEWHERE else f"process {pid} here{state}"
        console.data(f"  controller: {where}")
