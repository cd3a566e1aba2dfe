"""Events of a run that several workflows report, and the watcher that turns callbacks into events."""

from __future__ import annotations

from collections.abc import Callable

from pylaunch.agent.shared.dataclass import dataclass
from pylaunch.model.rank_view import RankView
from pylaunch.model.run import Event, EventKind
from pylaunch.model.usage import NodeUsage
from pylaunch.store.runs import Recorder


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
    usage: NodeUsage


@dataclass(frozen=True)
class Notice:
    """A line of progress, or a remark, for a person."""

    text: str


RunEvent = Event | LinesWritten | UsageReported | RankView | Notice
"""A `model.run.Event` is what the record keeps: nodes prepared, ranks started and ended, contact lost and regained.
A `RankView` is the view of a rank that its node took before it stopped the rank; the record keeps it, too."""


class RunWatcher:
    """A `launch.Watcher` that appends events to the record, if it has a recorder, and emits everything."""

    def __init__(self, recorder: Recorder | None, emit: Callable[[RunEvent], None], usage_every_s: float = 0.0) -> None:
        self.usage_every_s = usage_every_s
        self.releases: list[Event] = []
        self._recorder = recorder
        self._emit = emit

    def event(self, event: Event) -> None:
        """Record `event`, then emit it."""
        if self._recorder is not None:
            self._recorder.append(event)
        if event.kind in (EventKind.RELEASED, EventKind.RANK_STARTED):
            self.releases.append(event)
        self._emit(event)

    def output(self, host: str, stream: str, text: str, time: float) -> None:
        """Emit lines of a rank."""
        self._emit(LinesWritten(host, stream, text, time))

    def usage(self, host: str, reading: NodeUsage) -> None:
        """Emit the load of a node."""
        self._emit(UsageReported(host, reading))

    def rank_view(self, view: RankView) -> None:
        """Record `view`, then emit it."""
        if self._recorder is not None:
            self._recorder.append_view(view)
        self._emit(view)

    def message(self, text: str) -> None:
        """Emit a line of progress."""
        self._emit(Notice(text))
