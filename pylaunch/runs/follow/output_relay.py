"""Relay what nodes send while their ranks run: output and load."""

from collections.abc import Callable, Iterable

from pylaunch import protocol
from pylaunch.model.plan import RunPlan
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.follow.run_events import (
    LIVE_LAG,
    Emitter,
    LinesWritten,
    Notice,
    UsageReported,
    on_our_clock,
    skipped_line,
)


class OutputRelay:
    """Requests the streams of a run from its nodes, and emits what they send."""

    def __init__(
        self,
        plan: RunPlan,
        fleet: Fleet,
        emit: Emitter,
        streams: list[str],
        on_caught_up: Callable[[], None] = lambda: None,
    ) -> None:
        self.usage_every_s = 0.0
        """Interval in seconds at which nodes report their load; 0 is never."""

        self._fleet = fleet
        self._emit = emit
        self._streams = streams
        self._offsets: dict[str, dict[str, int]] = {node.host.name: {} for node in plan.nodes}
        self._behind = set(self._offsets)
        """Hosts that still send output from before this controller connected."""

        self._on_caught_up = on_caught_up

    def request(self, activity_s: float, host: str | None = None) -> protocol.Follow:
        """Return the request of all output, or of that after the last line of `host`.

        `activity_s` is the interval at which nodes report signs of life of their ranks.
        """
        offsets = {} if host is None else self._offsets[host]
        return protocol.Follow(offsets, self._streams, lag=LIVE_LAG, usage_s=self.usage_every_s, activity_s=activity_s)

    def take(self, host: str, message: protocol.Output | protocol.Skipped | protocol.Usage) -> None:
        """Emit a message of `host`."""
        if isinstance(message, protocol.Usage):
            self._emit(UsageReported(host, on_our_clock(message, lambda time: self._fleet.our_time(host, time))))
            return
        self._offsets[host][message.stream] = message.offset
        if isinstance(message, protocol.Skipped):
            self._emit(Notice(skipped_line(host, message)))
        else:
            self._emit(LinesWritten(host, message.stream, message.text, self._fleet.our_time(host, message.time)))

    def note_caught_up(self, host: str, message: object, live: Iterable[str]) -> None:
        """Call `on_caught_up` once no live host sends output from before the connection any more."""
        if not self._behind:
            return
        self._behind.intersection_update(live)
        if isinstance(message, protocol.CaughtUp):
            self._behind.discard(host)
        if not self._behind:
            self._on_caught_up()
