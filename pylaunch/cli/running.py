"""Run a planned start at the terminal or in the background, and pick the exit code."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import ExitCode, PylaunchError
from pylaunch.model.outcome import Outcome
from pylaunch.render import PlannedRun
from pylaunch.runs.events import RanksReleased, RunBegun, StartEvent
from pylaunch.runs.prepare.session import TakenError
from pylaunch.runs.start import StartOptions, begin, run, start
from pylaunch.store import runs
from pylaunch.store.files import run_paths
from pylaunch.terminal import console, document, hints
from pylaunch.terminal.doors import RunEnding, RunObserver
from pylaunch.terminal.options import current
from pylaunch.terminal.views import findings, run_data
from pylaunch.terminal.views.live import PROGRESS_S, RunView, has_board
from pylaunch.transport.background import STARTED, Background, fork_to_background
from pylaunch.transport.interrupts import signals


@dataclass(frozen=True)
class Presentation:
    """Flags of a start that `runs` does not know."""

    detach: bool = False
    """Return when the ranks run."""

    as_json: bool = False
    observers: tuple[RunObserver, ...] = ()
    end_nodes: Callable[[bool], None] = lambda is_good: None
    """Called when the run has ended, with the success of the run: it ends the Slurm job that was submitted for it."""


def run_planned(planned: PlannedRun, options: StartOptions, shown: Presentation) -> int:
    """Start `planned` and return the exit code.

    With --json, stdout has the events and, as its last line, the run; ranks write to stderr.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_with_queue_in_hint(options))
        view = RunView()
        ending = stack.enter_context(_job_ended(shown.end_nodes))
        if shown.as_json:
            stack.callback(_show_document, planned, view)
            if not shown.detach:
                shown = replace(shown, observers=(*shown.observers, run_data.EventStream(sys.stdout)))
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        stack.enter_context(view)
        if shown.detach:
            return _detached(planned, options, shown, (view, ending))
        return ending.of(_followed(planned, options, shown, view))


@contextlib.contextmanager
def _with_queue_in_hint(options: StartOptions) -> Iterator[None]:
    """Name --queue in the hint of an error about devices or ports that another run has."""
    try:
        yield
    except TakenError as error:
        if not options.waits:
            lines = (error.hint, "to wait until they are free: the same command with --queue")
            error.hint = "\n      ".join(filter(None, lines))
        raise


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
def _job_ended(end_nodes: Callable[[bool], None]) -> Iterator[_Ending]:
    """Call `end_nodes` after the block, unless another process follows the run."""
    ending = _Ending()
    try:
        yield ending
    finally:
        if ending.is_ours:
            end_nodes(ending.is_good)


def _show_document(planned: PlannedRun, view: RunView) -> None:
    if current().as_json:
        document.show(run_data.latest(view.run or planned.plan.run))


def _followed(planned: PlannedRun, options: StartOptions, shown: Presentation, view: RunView) -> int:
    options = replace(options, progress_every_s=PROGRESS_S if has_board() else 0.0)

    def show(event: StartEvent) -> None:
        view.show(event)
        _report(shown, event)

    return _ended(lambda: start(planned, options, show, signals), shown, view)


def _report(shown: Presentation, event: StartEvent) -> None:
    for observer in shown.observers:
        observer.on_event(event)


def _detached(planned: PlannedRun, options: StartOptions, shown: Presentation, shared: tuple[RunView, _Ending]) -> int:
    view, ending = shared
    recorded = begin(planned, options, view.show)
    log = run_paths(planned.plan.run).log
    log.touch(mode=0o600)
    half = fork_to_background(log)
    if isinstance(half, Background):
        ending.is_ours = False
        return _at_terminal(view, half, log)
    terminal = half
    current().as_json = False  # The half at the terminal prints the document.

    def show(event: StartEvent) -> None:
        view.show(event)
        _report(shown, event)
        if isinstance(event, RunBegun):  # The run lost its turn in the queue, and another one waits in its place.
            terminal.tell(event.plan.run)
        elif isinstance(event, RanksReleased):
            terminal.tell(STARTED)

    return ending.of(_ended(lambda: run(recorded, replace(options, relays_output=False), show, signals), shown, view))


def _ended(work: Callable[[], Outcome], shown: Presentation, view: RunView) -> int:
    try:
        outcome = work()
    except PylaunchError as error:
        error.evidence = tuple(map(findings.completed, error.evidence))
        if view.run:
            _report_end(shown, RunEnding(view.run, None, error))
        raise
    _report_end(shown, RunEnding(view.run, outcome))
    return outcome.status.exit_code


def _report_end(shown: Presentation, ending: RunEnding) -> None:
    for observer in shown.observers:
        observer.at_end(ending)


def _at_terminal(view: RunView, background: Background, log: Path) -> int:
    """Return 0 when the ranks of the background process run, or its exit code if it ended before.

    `view` then has the run that it began last: one that loses its turn in the queue is followed by another one.
    """
    begun, has_started = wait_until_started(background, log)
    run = view.run = begun or view.run
    if not has_started:
        code = background.exit_code()
        current().printed_error = _recorded_error(run, code)
        return code
    plan = runs.read(run).plan
    if (job := plan.nodes[0].host.slurm_job) is not None and plan.submitted_job is None:
        console.say(f"note: run {run} ends with Slurm job {job}, and a batch script ends here without waiting for it")
    console.say(
        f"run {run} continues in the background\n\n"
        f"hint: pylaunch attach {run}    # follow it; Ctrl-C leaves it alone\n"
        f"      pylaunch logs -f {run}   # only its output\n"
        f"      pylaunch stop {run}"
    )
    return ExitCode.DONE


def _recorded_error(run: str, code: int) -> PylaunchError | None:
    """Return the error with which the background process ended, from the record of the run."""
    outcome = runs.read(run).outcome
    if outcome is None:
        return None
    hint = hints.completed(outcome.hint, current()) if outcome.hint else None
    error = PylaunchError(outcome.reason, evidence=outcome.evidence, hint=hint)
    error.exit_code = ExitCode(code)
    return error


POLL_S = 0.05


def wait_until_started(background: Background, log: Path) -> tuple[str, bool]:
    """Print the log of the background process until its ranks run or it ends.

    Return the run that it began last, "" for none after that of its parent; and whether the ranks run.
    """
    shown, sent = 0, ""
    while True:
        try:
            heard = background.heard(POLL_S)
        except KeyboardInterrupt:
            background.interrupt()
            continue
        shown = _show(log, shown)
        sent += heard or ""
        lines = sent.split("\n")[:-1]
        if heard == "" or STARTED in lines:
            begun = [line for line in lines if line != STARTED]
            return begun[-1] if begun else "", STARTED in lines


def _show(log: Path, shown: int) -> int:
    """Print the lines of `log` after its first `shown` bytes; return the number of bytes printed so far."""
    text = log.read_bytes()[shown:]
    whole = text[: text.rfind(b"\n") + 1]
    for line in whole.decode("utf-8", "replace").splitlines():
        console.say(line)
    return shown + len(whole)
