"""Heartbeats: how long each of several senders has been silent, not counting pauses of this process.

When this process did not run (the machine was frozen, the process stopped), it could not receive anything either. The
length of a pause is therefore added to the last heartbeat of every sender. Pure: the clock is passed in.
"""

from __future__ import annotations

from collections.abc import Iterable

from pylaunch.protocol.messages import PAUSE_S


class Heartbeats:
    """Last heartbeat of each sender, in monotonic seconds."""

    def __init__(self, names: Iterable[str], now: float) -> None:
        self._last: dict[str, float] = dict.fromkeys(names, now)
        self._checked_at = now

    def beat(self, name: str, now: float) -> None:
        """Record a message from `name`, perhaps an older one than the last."""
        self._last[name] = max(now, self._last.get(name, now))

    @property
    def names(self) -> list[str]:
        """Senders from which messages are expected."""
        return list(self._last)

    def forget(self, name: str) -> None:
        """Expect nothing more from `name`."""
        self._last.pop(name, None)

    def check_pause(self, now: float) -> None:
        """Detect a pause of this process. Call this at least once per second."""
        pause = now - self._checked_at
        if pause > PAUSE_S:
            self._last = {name: min(now, at + pause) for name, at in self._last.items()}
        self._checked_at = now

    def silence_s(self, name: str) -> float:
        """Return the seconds for which `name` had been silent at the last `check_pause`."""
        return self._checked_at - self._last.get(name, self._checked_at)

    def silent(self, now: float, for_s: float) -> list[str]:
        """Return the senders that have been silent for at least `for_s` seconds."""
        return [name for name, at in self._last.items() if now - at >= for_s]
