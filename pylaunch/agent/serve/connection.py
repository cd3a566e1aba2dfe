"""Connection of one controller to the supervisor, with its position in the events and logs of the run."""

from __future__ import annotations

import socket
import time
from typing import Callable, Iterable, Sequence, Union

from pylaunch import protocol
from pylaunch.agent.logs import log_index
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.logs.tail import LogFollower
from pylaunch.agent.telemetry.activity import ActivityMeter
from pylaunch.agent.telemetry.usage import UsageMeter
from pylaunch.base.layout import RunDirectory
from pylaunch.protocol.lines import Lines

HIGH_WATER = 256 * 1024
"""Bytes in the send buffer above which no more log output is read."""

Meter = Union[UsageMeter, ActivityMeter]


class Controller(Lines):
    """Connected controller."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        self.follower: LogFollower | None = None
        self.pending_follow: protocol.Follow | None = None
        """`Follow` that was received and is not obeyed yet."""

        self.is_subscribed = False
        """Events are sent to this controller: it prepared, follows or stopped the run."""

        self.awaits_follow = False
        """The controller released the run and has not sent `Follow` yet: `Finished` is withheld until it does."""

        self._meters: Sequence[Meter] = ()
        self._next_event = 0
        self._is_caught_up = True

    def send(self, message: object) -> None:
        """Queue `message` ahead of events and output that are not queued yet."""
        self.put(protocol.encode(message))

    def start_following(
        self, directory: RunDirectory, paths: dict[str, str], mask: Mask,
        meters: Callable[[protocol.Follow], Iterable[Meter]],
    ) -> None:  # fmt: skip
        """Obey a pending `Follow`, with the `meters` that it requests. `paths` has the log file of each stream."""
        if self.pending_follow is not None:
            since = log_index.begins(directory, paths, self.pending_follow.since)
            self.follower = LogFollower(paths, self.pending_follow, mask=mask, since=since)
            self.follower.dates = log_index.Dates(directory)
            self._meters = [*meters(self.pending_follow)]
            self.pending_follow = None
            self._is_caught_up = False

    def queue_available(self, events: list[object], *, ended: bool) -> bool:
        """Queue events and output while the buffer has room. Return whether more may be available.

        `Finished` is last: a follower receives all output before it.
        """
        if not self.is_subscribed:
            return False
        for meter in () if ended or self.waiting >= HIGH_WATER else self._meters:
            reading = meter.read(time.monotonic())
            if reading is not None:
                self.send(reading)
        while self.waiting < HIGH_WATER:
            message = self._next_message(events, ended=ended)
            if message is None:
                return False
            self.send(message)
        return True

    def _next_message(self, events: list[object], *, ended: bool) -> object | None:
        event = events[self._next_event] if self._next_event < len(events) else None
        if event is None or isinstance(event, protocol.Finished):
            output = self._next_output(self.follower, ended=ended) if self.follower is not None else None
            if output is not None:
                return output
            if self.awaits_follow:
                return None
        if event is not None:
            self._next_event += 1
        return event

    def _next_output(
        self, follower: LogFollower, *, ended: bool
    ) -> protocol.Output | protocol.Skipped | protocol.CaughtUp | None:
        if not self._is_caught_up and follower.has_caught_up:
            self._is_caught_up = True
            return protocol.CaughtUp()
        return follower.next(ended=ended)

    def has_everything(self, events: list[object]) -> bool:
        """Return whether every event has been sent to this subscriber."""
        return self.is_subscribed and not self.waiting and self._next_event == len(events)
