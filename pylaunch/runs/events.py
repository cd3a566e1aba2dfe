"""Events of a start and of a run as it happens: the one stream to the record, the views and programs; their clock."""

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.diagnosis.finding import Finding
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.quantity import shown_size
from pylaunch.protocol.examination import RankView
from pylaunch.store.runs import Recorder

DENIED = os.strerror(errno.EACCES)
LIVE_LAG = 16 << 20
"""Bytes of one log that may wait for a live reader; beyond that, the oldest are skipped."""


@dataclass(frozen=True)
class LinesWritten:
    """Whole lines that `stream` ("3.out", "launcher.err") wrote on `host`."""

    host: str
    stream: str
    text: str
    time: float
    """Seconds since the epoch on the controller's clock."""


@dataclass(frozen=True)
class ProgressReported:
    """Output and steps of the ranks that run on one node."""

    host: str
    ranks: Sequence[protocol.RankSigns]


RunEvent = Event | LinesWritten | ProgressReported | RankView
"""An `Event` is all that happens to a run, with a line for a person: the record keeps it, all views print it. Output
and progress are beside it. A `RankView` is what a rank did before its node stopped it; the record keeps it, too."""

PRINTED = frozenset({
    EventKind.NOTICE, EventKind.WAITING, EventKind.LEFTOVER_ENDED, EventKind.TURN_LOST, EventKind.RESTARTING,
    EventKind.NO_RESTART,
})  # fmt: skip
"""Kinds whose text is printed as it is."""

Emitter = Callable[[RunEvent], None]
"""Receives the events of a run. It must not block."""


def clock_now() -> float:
    """Return seconds since the epoch, by a clock that nobody sets.

    It is the wall clock when the process began, and the seconds that the kernel has counted since. A wall clock that is
    set during a run, as after a laptop woke up, would give the run another order of events and another duration. The
    kernel also counts while the machine sleeps.
    """
    return _began + time.clock_gettime(_CLOCK)


def begin_clock() -> None:
    """Take the wall clock as it is now, unless a run is followed: a process may serve for days."""
    global _began
    if not _kept:
        _began = time.time() - time.clock_gettime(_CLOCK)


@contextlib.contextmanager
def clock_kept() -> Iterator[None]:
    """Follow a run: `begin_clock`, and keep that clock to the end of the block."""
    begin_clock()
    _kept.append(None)
    try:
        yield
    finally:
        _kept.pop()


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # That of macOS counts during sleep, too.
_kept: list[None] = []
_began = 0.0
begin_clock()


def event(kind: EventKind, text: str = "", host: str | None = None, lines: Sequence[str] = ()) -> Event:
    """Return an event of now."""
    return Event(clock_now(), kind, host, text=text, lines=tuple(lines))


def notice(text: str) -> Event:
    """Return a line of progress, or a remark."""
    return event(EventKind.NOTICE, text)


def recording(recorder: Recorder | None, emit: Emitter) -> Emitter:
    """Return an emitter that appends events and views of ranks to the record, if there is one, and emits everything."""

    def record(event: RunEvent) -> None:
        is_notice = isinstance(event, Event) and event.kind is EventKind.NOTICE
        if recorder is not None and isinstance(event, Event | RankView) and not is_notice:
            recorder.append(event)
        emit(event)

    return record


def contact_line(event: Event) -> str:
    """Return the line for a CONTACT_LOST or CONTACT_REGAINED."""
    is_lost = event.kind is EventKind.CONTACT_LOST
    return f"{event.host}: " + (f"{event.text}; trying to reach it again" if is_lost else "reached again")


def skipped_line(host: str, skipped: protocol.Skipped) -> str:
    """Return the line that is printed in place of output that was skipped."""
    if skipped.reason:
        repair = quoted(("chmod", "700", skipped.reason.rpartition(": ")[0]))
        repair = f"; on {host}: {repair}" if DENIED in skipped.reason else ""
        return f"warning: {host}: output cannot be read from here on: {skipped.reason}{repair}"
    source = skipped.stream.partition(".")[0]
    return f"{host}:{source} | … {shown_size(skipped.offset - skipped.start)} skipped, in {host}:{skipped.path}"


@dataclass(frozen=True)
class Start:
    """Timing of a synchronized start, in seconds."""

    phases: Mapping[str, float]
    skew: float
    """Time between the first and the last node's exec, corrected for clock offsets."""

    skew_uncertainty: float
    """Sum of the two largest clock uncertainties: the error of `skew` is not larger."""

    instant: float
    """Common instant of the release, in seconds since the epoch on the controller's clock."""

    begun: float
    """Instant at which the first phase began, on the same clock."""


@dataclass(frozen=True)
class RunBegun:
    """The record of a run was created: `pylaunch ps` lists it."""

    plan: RunPlan


@dataclass(frozen=True)
class AttemptStarted:
    """An attempt connects to its nodes."""

    plan: RunPlan


@dataclass(frozen=True)
class RanksReleased:
    """All ranks of an attempt run."""

    plan: RunPlan
    start: Start


@dataclass(frozen=True)
class AttemptRefused:
    """No rank of an attempt was started, and another attempt may follow."""

    plan: RunPlan
    error: ClusterNotReadyError


@dataclass(frozen=True)
class AttemptEnded:
    """An attempt whose ranks ran is over."""

    plan: RunPlan
    outcome: Outcome
    ran_s: float | None
    """From the release to the end of the last rank; None where no release was seen."""


@dataclass(frozen=True)
class Attached:
    """The run is live and is followed from now on."""

    record: RunRecord
    leads: bool
    """This process is the controller of the run now, and keeps its record."""


@dataclass(frozen=True)
class LogsCaughtUp:
    """All output that was written before has been emitted."""


StartEvent = (
    RunEvent | Finding | RunBegun | AttemptStarted | RanksReleased | AttemptRefused | AttemptEnded | Attached
    | LogsCaughtUp
)  # fmt: skip
"""A `Finding` is of a check beside the start, or of the comparison of its nodes, and does not prevent it."""

Emit = Callable[[StartEvent], None]
"""Called in the thread that runs the start, on its event loop: it must not block."""
