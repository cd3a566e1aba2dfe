"""The record of a run is kept from the stream of its events."""

from __future__ import annotations

from pylaunch.model.run import Event
from pylaunch.protocol.examination import RankView
from pylaunch.runs.follow.run_events import Emitter, RunEvent
from pylaunch.store.runs import Recorder


def recording(recorder: Recorder | None, emit: Emitter) -> Emitter:
    """Return an emitter that appends events and views of ranks to the record, if there is one, and emits everything."""

    def record(event: RunEvent) -> None:
        if recorder is not None and isinstance(event, Event | RankView):
            recorder.append(event)
        emit(event)

    return record
