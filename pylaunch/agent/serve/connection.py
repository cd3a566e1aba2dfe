"""One controller's connection to the supervisor: bytes in, lines out, and its place in the run's events and logs."""

from __future__ import annotations

import socket
from typing import Callable, Iterator

from pylaunch.agent import wire
from pylaunch.agent.logs import log_index
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.logs.tail import LogFollower
from pylaunch.agent.shared.layout import RunDirectory
from pylaunch.agent.telemetry import usage

HIGH_WATER = 256 * 1024
"""Log files are not read while this many bytes wait to be taken."""


class Lines:
    """A non-blocking socket that speaks in lines."""

    def __init__(self, connected: socket.socket, longest: int = wire.MAX_LINE) -> None:
        connected.setblocking(False)
        self.socket = connected
        self.is_open = True
        self._longest = longest
        self._inbox = bytearray()
        self._outbox = bytearray()

    @property
    def waiting(self) -> int:
        """Bytes that the other side has not taken yet."""
        return len(self._outbox)

    def receive(self) -> Iterator[bytes]:
        """The whole lines that have arrived. Afterwards `is_open` is False if the other side has gone."""
        try:
            chunk = self.socket.recv(1 << 16)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.is_open = False
            return
        self._inbox += chunk
        *lines, rest = self._inbox.split(b"\n")
        if len(rest) > self._longest:
            raise wire.WireError(f"a line longer than {self._longest} bytes")
        self._inbox = rest
        yield from (bytes(line) for line in lines)

    def put(self, line: bytes) -> None:
        """Send `line` when there is room."""
        self._outbox += line

    def flush(self) -> int:
        """Send what the other side takes now; how many bytes it took."""
        try:
            sent = self.socket.send(self._outbox) if self._outbox and self.is_open else 0
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.is_open = False
            return 0
        del self._outbox[:sent]
        return sent

    def close(self) -> None:
        self.is_open = False
        self.socket.close()


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
