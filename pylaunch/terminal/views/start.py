"""Events of a run that is started or followed, on the terminal."""

import contextlib

from pylaunch.checks.check import MARKS
from pylaunch.checks.survey import REACH
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Status
from pylaunch.model.run import Event, EventKind, first_line_timing
from pylaunch.model.text.argv import pylaunch
from pylaunch.runs.events import (
    PRINTED,
    Attached,
    AttemptEnded,
    AttemptRefused,
    AttemptStarted,
    LinesWritten,
    LogsCaughtUp,
    RanksReleased,
    RunBegun,
    Start,
    StartEvent,
    UsageReported,
)
from pylaunch.terminal import console, hints
from pylaunch.terminal.listing import counted
from pylaunch.terminal.views import findings
from pylaunch.terminal.views.live import Live, show_outcome, watching


class RunView:
    """Prints each event, and draws the live view of the attempt that runs."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._open = contextlib.ExitStack()
        self._world_size = 0
        self._begun: list[Event] = []
        """Starts and first lines of the ranks of the attempt that runs."""

        self._is_stopping = False
        """The attempt that runs is being stopped, because of a failure or by hand."""

        self._has_complaints = False
        """Ranks of the attempt that runs wrote to stderr."""

        self._timing = ""
        """Timing of the first lines that is not printed yet."""

        self.run = ""
        """The run that was begun last."""

        self.leads = False
        """This process became the controller of a run that it attached to."""

    def __enter__(self) -> "RunView":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def show(self, event: StartEvent) -> None:
        """Print `event`."""
        match event:
            case Event() if self._live is not None:
                self._live.show(event)
                self._report_first_lines(event, self._world_size)
            case LinesWritten() if self._live is not None:
                self._has_complaints = self._has_complaints or event.stream.endswith(".err")
                self._live.show(event)
            case UsageReported() if self._live is not None:
                self._live.show(event)
            case RunBegun(plan):
                self.run = plan.run
            case AttemptStarted(plan):
                self._begun, self._world_size, self._is_stopping = [], plan.world_size, False
                self._timing, self._has_complaints = "", False
                how = plan.job.framework.value + (f", environment {plan.env_name}" if plan.env_name else "")
                console.say(f"run {plan.run}: {counted(plan.world_size, 'rank')} on {fold(plan.cluster.names)} ({how})")
                self._live = self._open.enter_context(watching(plan, leads=True))
            case Attached(record, leads):
                self.leads = leads
                stop = pylaunch("stop", record.plan.run)
                console.say(f"following run {record.plan.run}; Ctrl-C leaves it alone, {stop} stops it")
                self._live = self._open.enter_context(watching(record.plan, leads=leads))
                self._live.hold()
            case LogsCaughtUp() if self._live is not None:
                self._live.catch_up()
            case AttemptRefused():
                self._close()
                console.say(hints.completed(event.error.render()))
            case AttemptEnded():
                live = self._live
                self._close()
                if self._timing and event.outcome.status is Status.DONE:
                    console.say(self._timing)
                show_outcome(event.plan, event.outcome if live is None else live.unshown(event.outcome), event.ran_s)
            case _:
                for line in lines(event):
                    console.say(line)

    def _report_first_lines(self, event: Event, world_size: int) -> None:
        """Print the timing of the first lines of user code once the last rank has reported its own.

        After output on stderr, which may be the error of a rank that failed at once, it waits for a good end:
        between a failure and its explanation, the timing would read as if the run had begun. The record has it anyway.
        """
        if event.kind is EventKind.STOP_ASKED:
            self._is_stopping, self._timing = True, ""
        if event.kind in (EventKind.RANK_STARTED, EventKind.FIRST_LINE):
            self._begun.append(event)
        # Only the last event of all ranks can complete the timing, which reads all of them.
        if (
            event.kind is EventKind.FIRST_LINE
            and world_size
            and len(self._begun) >= 2 * world_size
            and not self._is_stopping
        ):
            timing = first_line_timing(self._begun, world_size)
            if timing is not None:
                self._timing = (
                    f"first line of code on {counted(world_size, 'rank')}: {timing.last * 1000:.0f} ms after the "
                    f"release, skew {timing.skew * 1000:.1f} ms"
                )
                if not self._has_complaints:
                    console.say(self._timing)
                    self._timing = ""

    def _close(self) -> None:
        self._live = None
        self._open.close()


def lines(event: StartEvent) -> list[str]:
    """Return the lines for an event that needs no view of its own; none for one that is not printed."""
    match event:
        case Event() if event.kind in PRINTED:
            return [event.text]
        case Finding():
            return _finding_lines(event)
        case RanksReleased(start=start):
            return [_timing(start)]
    return []


def _finding_lines(finding: Finding) -> list[str]:
    if finding.check == REACH:
        return [f"{MARKS[Severity.UNKNOWN]}  {fold(finding.hosts)}: {finding.text}"]
    return findings.lines(finding)


def _timing(start: Start) -> str:
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in start.phases.items())
    return (
        f"started in {sum(start.phases.values()):.2f} s ({parts}); "
        f"release skew {start.skew * 1000:.1f} ms ± {start.skew_uncertainty * 1000:.1f}"
    )
