"""A run that is started or followed: its events, and the output of its ranks in plain lines or above a board.

On a terminal, lines of all ranks are shown by time, identical lines once, above a board. Where stdout or stderr is no
terminal, lines are printed as they arrive, one per rank.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Iterable, Iterator

from pylaunch.base.dataclass import replace
from pylaunch.checks.check import MARKS
from pylaunch.checks.survey import REACH
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import fold
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind
from pylaunch.model.text.argv import pylaunch
from pylaunch.model.text.quantity import counted
from pylaunch.model.text.sanitise import Pieces
from pylaunch.runs.events import (
    PRINTED,
    Attached,
    AttemptEnded,
    AttemptRefused,
    AttemptStarted,
    LinesWritten,
    LogsCaughtUp,
    ProgressReported,
    RanksReleased,
    RunBegun,
    RunEvent,
    Start,
    StartEvent,
    clock_now,
    contact_line,
)
from pylaunch.runs.follow.merge import LineSource, Merge, MergedLine
from pylaunch.terminal import console, hints
from pylaunch.terminal.views import findings
from pylaunch.terminal.views.board import Board
from pylaunch.terminal.views.outcome import show_hang, show_outcome
from pylaunch.verdict.rank_end import without_rank

TICK_S = 0.1
HOLD_S = 10.0
"""Time limit of an attached terminal for the earlier output of all nodes."""

REDRAW_S = 0.5
"""Interval of drawing the board."""

PROGRESS_S = 2.0
"""Interval at which nodes report the progress of their ranks."""

TRACEBACK = "Traceback (most recent call last):"
FOLDED = "Traceback … "


def visible_part(line: str) -> str:
    """Return the visible part of `line` on a terminal: a progress bar overwrites itself after a carriage return."""
    return line.rstrip("\r").rpartition("\r")[2]


class Live:
    """Prints ranks' stdout to stdout and their stderr to stderr, each line with its rank.

    A view that `leads` shows the run of this controller, which must not end with its reader.
    """

    def __init__(self, plan: RunPlan, *, leads: bool = False, label: str = "") -> None:
        """`label` begins the lines of ranks and the messages of a run that is shown beside others."""
        self._run = plan.run
        self._label = label
        self._leads = leads
        self._pieces = Pieces()
        self._width = max(len(f"{node.host.name}:{rank.rank}") for node in plan.nodes for rank in node.ranks)
        self._is_stopping = False
        self._in_traceback: set[str] = set()
        """Streams of ranks whose traceback is folded, and has not ended."""

    def show(self, event: RunEvent) -> None:
        """Show `event`, if this view does."""
        match event:
            case Event():
                self._event(event)
            case LinesWritten():
                if text := self._folded(event.stream, event.text):
                    self._output(replace(event, text=text))
            case _:
                pass

    def _event(self, event: Event) -> None:
        """Print `event` if a person must know it at once."""
        if event.kind in PRINTED:
            console.say(self._label + event.text)
        elif event.kind is EventKind.STOP_ASKED:
            if event.host is None or not self._is_stopping:  # A follower without the lead has one of each node.
                console.say(f"{self._label}stopping all nodes: {event.text}")
            self._is_stopping = True
        elif event.kind in (EventKind.HANG, EventKind.ADVANCING):
            show_hang(event, self._label)
        elif event.kind in (EventKind.CONTACT_LOST, EventKind.CONTACT_REGAINED):
            console.say(self._label + contact_line(event))

    def _output(self, written: LinesWritten) -> None:
        """`n1:0 | text`, a whole block of lines at once."""
        host, text = written.host, written.text
        source, _, channel = written.stream.partition(".")
        sink = sys.stdout if channel == "out" else sys.stderr
        if console.is_terminal(sink):
            text = self._pieces.joined((host, written.stream), text)
            lines = [visible_part(line) for line in text.removesuffix("\n").split("\n")] if text else []
        else:
            lines = text.removesuffix("\n").split("\n")
        prefix = f"{self._label}{f'{host}:{source}':<{self._width}} | "
        try:
            console.rank_lines(sink, [(prefix, line) for line in lines])
        except OSError as error:
            if not self._leads:
                raise
            # The controller follows its run to the end, also without a reader of its output.
            console.silence(sink)
            hint = f"pylaunch logs -f {self._run}"
            console.say(f"output of ranks cannot be shown here any more ({error.strerror}); the run continues: {hint}")

    def _folded(self, stream: str, text: str) -> str:
        """Return `text` with the last line alone of each traceback of a run that is being stopped.

        They are those of victims, but for one, which the report at the end shows.
        """
        if not stream.endswith(".err"):
            return text
        lines = []
        for line in text.splitlines(keepends=True):
            own = without_rank(line)
            if stream in self._in_traceback:
                if not own.strip() or own[0].isspace():
                    continue
                self._in_traceback.discard(stream)
                lines.append(f"{FOLDED}{own}")
            elif self._is_stopping and own.startswith(TRACEBACK):
                self._in_traceback.add(stream)
            else:
                lines.append(line)
        return "".join(lines)

    def hold(self) -> None:
        """Expect output that was written earlier, out of order."""

    def catch_up(self) -> None:
        """Expect no more earlier output."""


@contextlib.contextmanager
def watching(plan: RunPlan, *, leads: bool = False) -> Iterator[Live]:
    """Show a live run: with a board on a terminal, in plain lines elsewhere."""
    if not has_board():
        yield Live(plan, leads=leads)
        return
    with Terminal(plan, leads=leads) as terminal:
        yield terminal


def has_board() -> bool:
    """Return True where a live run is drawn, because a person looks at a terminal."""
    return console.is_terminal(sys.stdout) and console.is_drawable()


class Terminal(Live):
    """Prints lines after a short delay, from its own thread, so that older lines of other nodes come first."""

    def __init__(self, plan: RunPlan, *, leads: bool = False) -> None:
        super().__init__(plan, leads=leads)
        self._board = Board(plan)
        self._merge = Merge()
        self._lock = threading.Lock()
        """Protects the board and the lines that wait."""

        self._showing = threading.Lock()
        """Held from taking lines until they are printed, to keep their order."""

        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._drawing = contextlib.ExitStack()

    def __enter__(self) -> "Terminal":
        self._drawing.enter_context(console.drawn(self._drawn, REDRAW_S))
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._show(self._merge.rest())
        self._drawing.close()

    def show(self, event: RunEvent) -> None:
        """Show `event`, and draw it with the next update."""
        with self._lock:
            self._board.add(event)
        super().show(event)

    def hold(self) -> None:
        """Delay lines until those of other nodes that may be older have arrived."""
        with self._lock:
            self._merge.held_until = _now() + HOLD_S

    def catch_up(self) -> None:
        """Print the delayed lines by time."""
        with self._lock:
            self._merge.held_until = 0.0

    def _output(self, written: LinesWritten) -> None:
        """Queue lines for printing. A flood is printed in this call, so that nodes send no faster than it prints."""
        text = self._pieces.joined((written.host, written.stream), written.text)
        if not text:
            return
        who, _, channel = written.stream.partition(".")
        with self._lock:
            self._merge.add(LineSource(written.host, who), channel, text, written.time, _now())
            is_flood = self._merge.is_full
        if is_flood:
            self._show_what_is_due()

    def _tick(self) -> None:
        while not self._is_over.wait(TICK_S):
            self._show_what_is_due()

    def _show_what_is_due(self) -> None:
        with self._showing:
            with self._lock:
                due = list(self._merge.due(_now()))
            self._show(due)

    def _show(self, lines: Iterable[MergedLine]) -> None:
        prefixed = [(f"{self._prefix(line)} | ", visible_part(line.text)) for line in lines]
        if prefixed:
            console.rank_lines(sys.stderr, prefixed)

    def _prefix(self, line: MergedLine) -> str:
        if len(line.sources) == 1:
            only = line.sources[0]
            return f"{f'{only.host}:{only.who}':<{self._width}}"
        if line.sources[0].who.isdecimal():
            return f"{fold(source.who for source in line.sources):<{self._width}}"
        return f"{fold(source.host for source in line.sources)}:{line.sources[0].who}"

    def _drawn(self) -> list[str]:
        with self._lock:
            return self._board.lines(clock_now())


def _now() -> float:
    return time.monotonic()


class RunView:
    """Prints each event, and draws the live view of the attempt that runs."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._open = contextlib.ExitStack()
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
            case Event() | LinesWritten() | ProgressReported() if self._live is not None:
                self._live.show(event)
            case RunBegun(plan):
                self.run = plan.run
            case AttemptStarted(plan):
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
                self._close()
                self.run = event.plan.run
                show_outcome(event.plan, event.outcome, event.ran_s)
            case _:
                for line in lines(event):
                    console.say(line)

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
