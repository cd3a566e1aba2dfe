"""One controller's connection to the supervisor: its place in the run's events and logs."""

from __future__ import annotations

import socket
from typing import Callable

from pylaunch.agent import wire
from pylaunch.agent.logs import log_index
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.logs.tail import LogFollower
from pylaunch.agent.shared.layout import RunDirectory
from pylaunch.agent.telemetry import usage
from pylaunch.agent.wire.lines import Lines

HIGH_WATER = 256 * 1024
"""Log files are not read while this many bytes wait to be taken."""


class Controller(Lines):
    """A controller that is connected."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        self.follower: LogFollower | None = None
        self.wants: wire.Follow | None = None
        """What it wants to follow and does not yet."""

        self.is_told = False
        """It hears of events: it prepared, follows or stopped the run."""

        self.will_follow = False
        """It released the run and has not said yet what it wants to follow: Finished waits for that."""

        self._meter: usage.Meter | None = None
        self._next_event = 0
        self._is_caught_up = True

    def say(self, message: object) -> None:
        """Send `message` now, ahead of events and output that are still to come."""
        self.put(wire.encode(message))

    def begin_to_follow(
        self, directory: RunDirectory, paths: dict[str, str], mask: Mask, meter: Callable[[float], usage.Meter]
    ) -> None:
        """Follow what it wants of the streams that there are: name → log file. `meter` makes one of a period."""
        if self.wants is not None:
            since = log_index.begins(directory, paths, self.wants.since)
            self.follower = LogFollower(paths, self.wants, mask=mask, since=since)
            self.follower.dates = log_index.Dates(directory)
            self._meter = meter(self.wants.usage_s) if self.wants.usage_s > 0 else None
            self.wants = None
            self._is_caught_up = False

    def fill(self, events: list[object], *, ended: bool) -> bool:
        """Take events and output while there is room. True when there may be more at once.

        Finished comes last: after all output, for one that follows.
        """
        if not self.is_told:
            return False
        reading = None if ended else usage.due(self._meter)
        if reading is not None and self.waiting < HIGH_WATER:
            self.say(reading)
        while self.waiting < HIGH_WATER:
            message = self._take(events, ended=ended)
            if message is None:
                return False
            self.say(message)
        return True

    def _take(self, events: list[object], *, ended: bool) -> object | None:
        event = events[self._next_event] if self._next_event < len(events) else None
        if event is None or isinstance(event, wire.Finished):
            output = self._take_output(self.follower, ended=ended) if self.follower is not None else None
            if output is not None:
                return output
            if self.will_follow:
                return None
        if event is not None:
            self._next_event += 1
        return event

    def _take_output(self, follower: LogFollower, *, ended: bool) -> wire.Output | wire.Skipped | wire.CaughtUp | None:
        if not self._is_caught_up and follower.has_caught_up:
            self._is_caught_up = True
            return wire.CaughtUp()
        return follower.next(ended=ended)

    def has_all(self, events: list[object]) -> bool:
        """It asked to be told, and has been told everything."""
        return self.is_told and not self.waiting and self._next_event == len(events)
