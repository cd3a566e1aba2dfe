"""Events of a start and of a run as it happens: the one stream to the record, the views and programs."""

import errno
import os
from collections.abc import Callable, Mapping

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.diagnosis.finding import Finding
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event
from pylaunch.model.text.size import shown_size
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
class UsageReported:
    """Load of one node, and the steps of its ranks."""

    host: str
    usage: protocol.Usage
    clock_offset: float | None = None
    """Clock of the node minus ours when the connection began, in seconds; None where it is not reported."""


@dataclass(frozen=True)
class Notice:
    """A line of progress, or a remark, for a person."""

    text: str


RunEvent = Event | LinesWritten | UsageReported | RankView | Notice
"""A `model.run.Event` is what the record keeps: nodes prepared, ranks started and ended, contact lost and regained.
A `RankView` is the view of a rank that its node took before it stopped the rank; the record keeps it, too."""

Emitter = Callable[[RunEvent], None]
"""Receives the events of a run. It must not block."""


def recording(recorder: Recorder | None, emit: Emitter) -> Emitter:
    """Return an emitter that appends events and views of ranks to the record, if there is one, and emits everything."""

    def record(event: RunEvent) -> None:
        if recorder is not None and isinstance(event, Event | RankView):
            recorder.append(event)
        emit(event)

    return record


def on_our_clock(reported: protocol.Usage, to_ours: Callable[[float], float]) -> protocol.Usage:
    """Return the load that a node reports with the times of `to_ours`, which converts to the controller's clock."""
    return replace(reported, steps=[replace(mark, time=to_ours(mark.time)) for mark in reported.steps])


def skipped_line(host: str, skipped: protocol.Skipped) -> str:
    """Return the line that is printed in place of output that was skipped."""
    if skipped.reason:
        repair = f"; on {host}: chmod 700 {skipped.reason.rpartition(': ')[0]}" if DENIED in skipped.reason else ""
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
class Restarting:
    """Another attempt follows."""

    plan: RunPlan
    why: str
    """Changes of the hosts, in one line; "" when there are none."""

    fallback: str = ""
    """Change of the network with its price, in one line; "" when there is none."""


@dataclass(frozen=True)
class NoRestart:
    """No attempt follows one that failed."""

    why: str


@dataclass(frozen=True)
class LeftoverEnded:
    """A process that no live run owns was ended, before the start."""

    host: str
    process: str


@dataclass(frozen=True)
class RunBegun:
    """The record of a run was created: `pylaunch ps` lists it."""

    plan: RunPlan


@dataclass(frozen=True)
class SpareRefused:
    """A spare cannot take part and was dropped."""

    host: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class AttemptStarted:
    """An attempt connects to its nodes."""

    plan: RunPlan


@dataclass(frozen=True)
class Waiting:
    """The start waits in the queue."""

    blocked_by: tuple[str, ...]
    """Devices, ports and runs that block it, in words, hosts folded."""


@dataclass(frozen=True)
class TurnLost:
    """A run that did not queue took the devices first. The start queues again, as a run with a new id."""


@dataclass(frozen=True)
class FindingReported:
    """A check beside the start, or the comparison of its nodes, found something that does not prevent it."""

    finding: Finding


@dataclass(frozen=True)
class TreeChanged:
    """Files of the shipped tree changed after it was read. All nodes have the content from before."""

    paths: tuple[str, ...]


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
class RunEnded:
    """The run is over, with all of its attempts. The last event of a start that raises no error."""

    plan: RunPlan
    """The first attempt."""

    outcome: Outcome
    """The last attempt's."""


StartEvent = (
    LeftoverEnded
    | RunBegun
    | SpareRefused
    | AttemptStarted
    | Waiting
    | TurnLost
    | FindingReported
    | TreeChanged
    | RanksReleased
    | RunEvent
    | AttemptRefused
    | AttemptEnded
    | Restarting
    | NoRestart
    | RunEnded
)
"""`model.run.Event` reports what the record keeps: nodes prepared, ranks started and ended, contact lost."""

Emit = Callable[[StartEvent], None]
"""Called in the thread that runs the start, on its event loop: it must not block."""
