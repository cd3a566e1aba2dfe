"""Run a planned start at the terminal or in the background, and pick the exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from pylaunch import features
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.cli.background import wait_until_well
from pylaunch.cli.flags.start import NAMED_BY_RUN
from pylaunch.cli.views import findings, run_data
from pylaunch.cli.views.collecting import collect
from pylaunch.cli.views.starting import StartView
from pylaunch.cli.views.terminal import USAGE_S, has_board
from pylaunch.errors import ExitCode, PylaunchError, UsageError
from pylaunch.launch.connect.interruptible import signals
from pylaunch.model.outcome import Outcome, Status
from pylaunch.store import runs
from pylaunch.store.output_directory import output_file
from pylaunch.store.paths import run_paths
from pylaunch.terminal import console, document, hints
from pylaunch.terminal.invocation import current
from pylaunch.transport.process import Background, fork_to_background
from pylaunch.workflows.start import PlannedRun, StartOptions, begin, end_leftovers, run, start
from pylaunch.workflows.start_checks import ChecksFailedError
from pylaunch.workflows.start_events import RanksReleased, StartEvent


@dataclass(frozen=True)
class Presentation:
    """Flags of a start that its workflow does not know."""

    detach: bool = False
    """Return when the ranks run."""

    as_json: bool = False
    collect_to: Path | None = None
    """Copy the logs of the last attempt that had ranks to this directory at the end."""

    report_to: Path | None = None
    """Write the report of a failed run to this file; RUN in the usual name stands for the id."""

    at_end: Callable[[bool], None] = lambda is_good: None
    """Called when the run has ended, with the success of the run: it ends the Slurm job that was submitted for it."""


def run_planned(planned: PlannedRun, options: StartOptions, shown: Presentation) -> int:
    """Start `planned` and return the exit code. With --json, stdout has only the document; ranks write to stderr."""
    with contextlib.ExitStack() as stack:
        view = StartView()
        ending = stack.enter_context(_job_ended(shown.at_end))
        if shown.as_json:
            stack.callback(_show_document, planned, view)
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        stack.enter_context(view)
        if shown.detach:
            return _detached(planned, options, shown, (view, ending))
        return ending.of(_followed(planned, options, shown, view))


class _Ending:
    """The end of the Slurm job of a run."""

    is_good = False
    is_ours = True
    """This process follows the run to its end."""

    def of(self, code: int) -> int:
        """Keep the success of the run whose exit code is `code`, and return `code`."""
        self.is_good = code == ExitCode.DONE
        return code


@contextlib.contextmanager
def _job_ended(at_end: Callable[[bool], None]) -> Iterator[_Ending]:
    """Call `at_end` after the block, unless another process follows the run."""
    ending = _Ending()
    try:
        yield ending
    finally:
        if ending.is_ours:
            at_end(ending.is_good)


def _show_document(planned: PlannedRun, view: StartView) -> None:
    if current().as_json:
        document.show(run_data.latest(view.run or planned.plan.run))


def _followed(planned: PlannedRun, options: StartOptions, shown: Presentation, view: StartView) -> int:
    options = replace(options, usage_every_s=USAGE_S if has_board() and options.terminal is None else 0.0)
    return _ended(lambda: start(planned, options, view.show, signals), shown, view)


def _detached(
    planned: PlannedRun, options: StartOptions, shown: Presentation, shared: tuple[StartView, _Ending]
) -> int:
    view, ending = shared
    if options.ends_leftovers:
        end_leftovers(planned.plan, view.show)
    recorded = begin(planned, view.show)
    log = run_paths(planned.plan.run).log
    log.touch(mode=0o600)
    half = fork_to_background(log)
    if isinstance(half, Background):
        ending.is_ours = False
        return wait_until_well(planned.plan.run, half, log)
    terminal = half
    current().as_json = False  # The half at the terminal prints the document.

    def show(event: StartEvent) -> None:
        view.show(event)
        if isinstance(event, RanksReleased):
            terminal.let_go()

    return ending.of(_ended(lambda: run(recorded, replace(options, relays_output=False), show, signals), shown, view))


def _ended(work: Callable[[], Outcome], shown: Presentation, view: StartView) -> int:
    try:
        outcome = work()
    except PylaunchError as error:
        if isinstance(error, ChecksFailedError):
            error.evidence = tuple(map(findings.completed, error.evidence))
        if shown.report_to is not None and view.run:
            _report(view.run, shown.report_to)
        raise
    if shown.report_to is not None and outcome.status is Status.FAILED:
        _report(view.run, shown.report_to)
    if shown.collect_to is not None:
        _collect(view.run, shown.collect_to)
    return exit_code(outcome)


def _collect(run: str, directory: Path) -> None:
    for record in map(runs.read, reversed(runs.attempts(run))):
        if record.outcome is None or record.outcome.status is not Status.REFUSED:
            collect(record, directory)
            return


def _report(run: str, file: Path) -> None:
    """Write the report of the last attempt; a failure to write is a warning, as the run has ended."""
    from pylaunch.workflows.report import write_report  # noqa: PLC0415 -- Jinja, for HTML, takes 0.03 s of every start

    record = runs.read(runs.attempts(run)[-1])
    try:
        named = output_file(f"pylaunch-{record.plan.run}.html") if file.name == NAMED_BY_RUN else file
        made = write_report(record, named, os.environ, features.measured, hints.of_run(record.plan))
    except UsageError as error:
        console.say(f"warning: no report: {error.message}")
    else:
        console.say(f"report: {made.file}")


def exit_code(outcome: Outcome) -> ExitCode:
    """Return the exit code of a verb that followed a run to its end."""
    return {
        Status.DONE: ExitCode.DONE,
        Status.FAILED: ExitCode.JOB_FAILED,
        Status.STOPPED: ExitCode.INTERRUPTED,
        Status.REFUSED: ExitCode.CLUSTER_NOT_READY,
    }[outcome.status]
