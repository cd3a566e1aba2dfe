"""`pylaunch attach`: follow a live run again."""

from __future__ import annotations

from pathlib import Path

import click

from pylaunch.cli.running import exit_code
from pylaunch.cli.views.following import AttachView
from pylaunch.launch.connect.interruptible import signals
from pylaunch.model.job import JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.terminal import options
from pylaunch.terminal.flags.resolve_run import find
from pylaunch.terminal.views.terminal import USAGE_S, has_board
from pylaunch.workflows.attach import attach


@click.command()
@options.run
@options.nodes_know
def command(run: str | None, *, inventory: Path | None) -> int:
    """Follow RUN (the only live one without) from the beginning of its logs to its end, as start does.

    Ctrl-C stops the run cleanly, a second one kills it. To look without that, use pylaunch logs -f.
    """
    record = find(run, inventory)
    with AttachView() as view:
        outcome = attach(record, view.show, signals, usage_every_s=USAGE_S if has_board() else 0.0)
    if view.leads and record.plan.submitted_job is not None:
        _end_job(record.plan.submitted_job, record.plan.job, outcome)
    return exit_code(outcome)


def _end_job(job_id: str, job: JobSpec, outcome: Outcome) -> None:
    """End the Slurm job that was submitted for the run, whose first controller has ended."""
    from pylaunch.cli.views import queueing  # noqa: PLC0415 -- modules that only a run in a Slurm job needs
    from pylaunch.explain.requeue import cause_of  # noqa: PLC0415
    from pylaunch.workflows.allocation import JobNotRequeued, end_submitted  # noqa: PLC0415

    if job.max_requeues and cause_of(outcome):
        queueing.show(JobNotRequeued(job_id, "the controller that would request it has ended"))
    end_submitted(job_id, queueing.show, is_good=outcome.status is Status.DONE)
