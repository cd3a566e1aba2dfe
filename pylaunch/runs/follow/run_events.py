"""Events of a run as it happens: the one stream from its nodes to the record, the views and programs."""

import errno
import os
from collections.abc import Callable

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass, replace
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
