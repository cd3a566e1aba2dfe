"""Events of a start on the terminal."""

from __future__ import annotations

import contextlib

from pylaunch.cli import console
from pylaunch.cli.views import findings, hints
from pylaunch.cli.views.live import Live, counted, show_outcome
from pylaunch.cli.views.terminal import watching
from pylaunch.launch.attempts import NoRestart, Restarting
from pylaunch.launch.start.session import Start
from pylaunch.model.finding import Finding, Severity
from pylaunch.model.hostset import fold
from pylaunch.model.run import Event, EventKind, first_line_timing
from pylaunch.preflight.finding_lines import MARKS
from pylaunch.preflight.result import REACH
from pylaunch.workflows.run_events import LinesWritten, Notice, UsageReported
from pylaunch.workflows.start_events import (
    AttemptEnded,
    AttemptRefused,
    AttemptStarted,
    FindingReported,
    LeftoverEnded,
    NodesDiffer,
    RanksReleased,
    RunBegun,
    SpareRefused,
    StartEvent,
    TreeChanged,
    TurnLost,
    Waiting,
)

SHOWN_PATHS = 3


class StartView:
    """Prints each event, and draws the live view of the attempt that runs."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._open = contextlib.ExitStack()
        self._world_size = 0
        self._begun: list[Event] = []
        """Starts and first lines of the ranks of the attempt that runs."""

        self.run = ""
        """The run that was begun last."""

    def __enter__(self) -> StartView:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def show(self, event: StartEvent) -> None:
        """Print `event`."""
        match event:
            case Event() if self._live is not None:
                self._live.event(event)
                self._report_first_lines(event, self._world_size)
            case LinesWritten() if self._live is not None:
                self._live.output(event.host, event.stream, event.text, event.time)
            case UsageReported() if self._live is not None:
                self._live.usage(event.host, event.usage)
            case RunBegun(plan):
                self.run = plan.run
            case AttemptStarted(plan):
                self._begun, self._world_size = [], plan.world_size
                hosts, framework = fold(plan.cluster.names), plan.job.framework.value
                console.say(f"run {plan.run}: {counted(plan.world_size, 'rank')} on {hosts} ({framework})")
                self._live = self._open.enter_context(watching(plan, None, leads=True))
            case AttemptRefused():
                self._close()
                console.say(hints.completed(event.error.render()))
            case AttemptEnded():
                self._close()
                show_outcome(event.plan, event.outcome, event.ran_s)
            case _:
                for line in lines(event):
                    console.say(line)

    def _report_first_lines(self, event: Event, world_size: int) -> None:
        """Print the timing of the first lines of user code once the last rank has reported its own."""
        if event.kind in (EventKind.RANK_STARTED, EventKind.FIRST_LINE):
            self._begun.append(event)
        # Only the last event of all ranks can complete the timing, which reads all of them.
        if event.kind is EventKind.FIRST_LINE and len(self._begun) >= 2 * world_size:
            timing = first_line_timing(self._begun, world_size)
            if timing is not None:
                console.say(
                    f"first line of code on {counted(world_size, 'rank')}: {timing.last * 1000:.0f} ms after the "
                    f"release, skew {timing.skew * 1000:.1f} ms"
                )

    def _close(self) -> None:
        self._live = None
        self._open.close()


def lines(event: StartEvent) -> list[str]:
    """Return the lines for an event that needs no view of its own; none for one that is not printed."""
    match event:
        case Notice(text):
            return [text]
        case LeftoverEnded(host, process):
            return [f"{host}: ended {process}, which no live run owned"]
        case SpareRefused(host, reasons):
            return [f"spare {host} cannot take part: {'; '.join(reasons)}"]
        case Waiting(blocked_by):
            return [f"waiting for {'; '.join(blocked_by)}"]
        case TurnLost():
            return ["another run, which did not queue, took its place: waiting again"]
        case FindingReported(finding):
            return _finding_lines(finding)
        case NodesDiffer(differences):
            next_steps = dict.fromkeys(each.hint for each in differences)
            return [
                *(f"warning: hosts differ: {each.text}" for each in differences),
                *(f"hint: {hints.completed(step)}" for step in next_steps),
            ]
        case TreeChanged(paths):
            more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
            shown = ", ".join(paths[:SHOWN_PATHS]) + more
            return [f"warning: changed since the tree was read: {shown}; all nodes have what was there before"]
        case RanksReleased(start=start):
            return [_timing(start)]
        case Restarting(plan, why, fallback):
            change = f" ({why})" if why else ""
            warnings = [f"warning: fallback: {fallback}"] if fallback else []
            return [f"{plan.attempt_words}{change}: run {plan.run}", *warnings]
        case NoRestart(why):
            return [f"no restart: {why}"]
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
