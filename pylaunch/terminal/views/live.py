"""A live run in plain lines or above a board, and the report at its end.

On a terminal, lines of all ranks are shown by time, identical lines once, above a board. Where stdout or stderr is no
terminal, lines are printed as they arrive, one per rank.
"""

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator

from pylaunch.base.dataclass import replace
from pylaunch.checks.check import FIX
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind
from pylaunch.model.text.sanitise import Pieces
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.runs import steady_clock
from pylaunch.runs.events import PRINTED, LinesWritten, RunEvent
from pylaunch.runs.follow.merge import LineSource, Merge, MergedLine
from pylaunch.terminal import console, hints
from pylaunch.terminal.listing import counted, duration
from pylaunch.terminal.views.board import Board
from pylaunch.verdict.rank_end import described, sounds_like_a_victim, without_rank

TICK_S = 0.1
HOLD_S = 10.0
"""Time limit of an attached terminal for the earlier output of all nodes."""

REDRAW_S = 0.5
"""Interval of drawing the board."""

USAGE_S = 2.0
"""Interval at which nodes report their load."""

LAST_LINES = 20
ON_SCREEN = 20
"""Lines that a reader still sees above the report."""

TRACEBACK = "Traceback (most recent call last):"
FOLDED = "Traceback … "
MOST_WARNINGS = 4
"""Ranks that hide a failure which are listed."""


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

        self._last: dict[str, deque[str]] = {}
        """Last lines on stderr of each rank that were shown."""

        self._shown = deque[str](maxlen=ON_SCREEN)
        """Streams of the last lines that were shown."""

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
            self._is_stopping = True
            console.say(f"{self._label}stopping all nodes: {event.text}")
        elif event.kind in (EventKind.HANG, EventKind.ADVANCING):
            show_hang(event, self._label)
        elif event.kind is EventKind.CONTACT_LOST:
            console.say(f"{self._label}{event.host}: {event.text}; trying to reach it again")
        elif event.kind is EventKind.CONTACT_REGAINED:
            console.say(f"{self._label}{event.host}: reached again")

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

    def unshown(self, outcome: Outcome) -> Outcome:
        """Return `outcome` without the last lines of the failed rank that are on the screen already."""
        end = outcome.first_failure
        if end is None or (stream := f"{end.rank}.err") not in self._shown:
            return outcome
        lines, bare = list(end.last_lines[-LAST_LINES:]), replace(end, last_lines=())
        is_shown = [*self._last[stream]][-len(lines) :] == lines and described(bare) == described(end)
        return replace(outcome, first_failure=bare) if is_shown else outcome

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
        self._last.setdefault(stream, deque(maxlen=LAST_LINES)).extend(line.rstrip("\r\n") for line in lines)
        self._shown.extend(stream for _ in lines)
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
            return self._board.lines(steady_clock.now())


def _now() -> float:
    return time.monotonic()


def show_hang(event: Event, label: str = "") -> None:
    """Print that ranks do not advance, with the evidence and the next command; or that they advance again."""
    mark = "warning: " if event.text.startswith("hang: ") else ""
    console.say(f"{label}{mark}{event.text}")
    console.quote(event.lines)
    if event.hint:
        hints.say(event.hint)


def _show_last_lines(end: RankEnd) -> None:
    if end.last_lines:
        console.say(f"the last lines of {end.who}{f', which {end.symptom}' if end.symptom else ''}:")
        console.quote(end.last_lines[-LAST_LINES:])


def show_outcome(
    plan: RunPlan, outcome: Outcome, ran_s: float | None = None, *, verbose: bool = False, is_past: bool = False
) -> None:
    """Print how a run ended: the failed rank with its last lines, causes, leftovers, and the next command.

    What would have mended a refusal is no next command for a run that `is_past`: the hosts may have changed.
    """
    failure = outcome.first_failure
    next_steps = []
    if outcome.status is Status.DONE:
        hosts = fold(node.host.name for node in plan.nodes)
        took = "" if ran_s is None else f" in {duration(ran_s)}"
        ranks = counted(plan.world_size, "rank")
        console.say(f"run {plan.run} done{took}: {ranks} on {hosts} exited with code 0", style="green")
        next_steps += _warnings(plan, outcome)
    elif failure is not None and (failure.symptom or not _is_about(outcome, failure)):
        console.say(f"error: run {plan.run}: {outcome.reason}")
        _show_last_lines(failure)
        named = outcome.named
        rank = failure.rank if named is None or named.rank is None else named.rank
        next_steps.append(f"pylaunch logs {plan.attempt} {_whose(rank)}")
    elif failure is not None:
        console.say(f"error: run {plan.run}: {failure.who} {described(failure)}{_others(plan, outcome, failure)}")
        console.quote(failure.last_lines[-LAST_LINES:])
        next_steps.append(f"pylaunch logs {plan.attempt} {_whose(failure.rank)}")
    elif outcome.status is Status.FAILED:
        console.say(f"error: run {plan.run}: {outcome.reason}")
    else:
        console.say(f"run {plan.run} {outcome.status.value}: {outcome.reason}")
        for line in outcome.evidence:
            fix = line.startswith(FIX)
            console.say(f"  {hints.completed(line, hints.as_started(plan)) if fix else line}")
        hint = hints.completed(outcome.hint, hints.as_started(plan))
        if hint and is_past:
            console.say(f"  hint at that time: {hint}")
        elif hint:
            next_steps.append(hint)
    show_causes(outcome, verbose=verbose)
    if outcome.causes and outcome.causes[0].hint:
        next_steps.append(outcome.causes[0].hint)
    show_proof(plan, outcome)
    if outcome.leftovers:
        next_steps.append(f"pylaunch stop {plan.run}")
    if outcome.unproven:
        next_steps.append(f"when {fold(outcome.unproven)} can be reached again: pylaunch stop {plan.run}")
    if next_steps:
        hints.say(*next_steps, plan=plan)


def _warnings(plan: RunPlan, outcome: Outcome) -> list[str]:
    """Print the ranks of a run that is done which hide a failure. Return the command that shows the first of them."""
    hiding = [end for end in outcome.ends if end.hides_failure]
    for end in hiding[:MOST_WARNINGS]:
        console.say(f"warning: {end.who} {described(end)}")
    if more := len(hiding[MOST_WARNINGS:]):
        console.say(f"warning: {counted(more, 'more rank')} hide a failure behind code 0, too")
    return [f"pylaunch logs {plan.attempt} {_whose(end.rank)}" for end in hiding[:1]]


def _is_about(outcome: Outcome, failure: RankEnd) -> bool:
    """Return True if the first cause is the failure itself, and not a fact of a host."""
    return not outcome.causes or outcome.causes[0].reason == f"{failure.who} {described(failure)}"


def _others(plan: RunPlan, outcome: Outcome, failure: RankEnd) -> str:
    """Return the part of the sentence about the other ranks: own failures, victims, and ranks that were stopped."""
    failed = [end for end in outcome.ends if end.rank not in (None, failure.rank) and end.failed]
    own = [end for end in failed if not (end.symptom or sounds_like_a_victim(end))]
    others, stopped = plan.world_size - 1, {end.rank for end in outcome.ends if end.rank is not None and end.stopped}
    victims = {end.rank for end in failed if end not in own}
    gone, verb = len(stopped | victims), "ended" if victims else "stopped"
    more = f", and {len(own) - 1} more" if len(own) > 1 else ""
    text = f"; {own[0].who} failed on its own, too ({described(own[0])}){more}" if own else ""
    if not gone:
        return text
    if gone == others - len(own):
        return f"{text}; the other {'rank' if gone == 1 else f'{gone} ranks'} {verb} with it"
    return f"{text}; {gone} of the other {others} ranks {verb} with it"


def _whose(rank: int | None) -> str:
    return "--launcher" if rank is None else f"--rank {rank}"


def show_proof(plan: RunPlan, outcome: Outcome) -> None:
    """Print the nodes that are proven clean, leftovers, and nodes that could not be asked."""
    hosts = [node.host.name for node in plan.nodes]
    clean = [host for host in hosts if host not in outcome.leftovers and host not in outcome.unproven]
    if clean:
        console.say(f"{fold(clean)}: clean (no process, port or device lease of the run is left)")
    for host, reason in outcome.unreadable.items():
        console.say(f"{host}: the files of the run cannot be read, output and record are incomplete: {reason}")
    for host in hosts:
        if left := outcome.leftovers.get(host):
            console.say(f"{host}: left behind: {'; '.join(left)}")
    if outcome.unproven:
        console.say(f"{fold(outcome.unproven)}: not known to be clean")


MOST_OTHERS = 3


def show_causes(outcome: Outcome, *, verbose: bool = False) -> None:
    """Print the evidence for the first cause, and other causes; with `verbose` the rejected ones, and missing facts."""
    if outcome.causes:
        top, *others = outcome.causes
        if top.reason not in outcome.reason:
            console.say(f"{top.confidence.value} confidence: {top.reason}")
        if top.evidence:
            console.say(f"evidence ({top.confidence.value} confidence: {top.identifier}):")
        console.quote(top.evidence)
        for other in others if verbose else others[:MOST_OTHERS]:
            console.say(f"also, {other.confidence.value} confidence: {other.reason}")
            console.quote(other.evidence if verbose else other.evidence[:1])
        if top.question:
            console.say(f"to be sure: {top.question}")
        if top.page:
            console.say(f"see: pylaunch help {top.page}")
    if verbose:
        for each in outcome.rejected:
            console.say(f"rejected: {each.reason} ({each.why})")
        for facts in outcome.hosts:
            for missing in facts.missing:
                console.say(f"not known: {facts.host}: {missing}")
