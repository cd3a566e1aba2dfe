"""Who has been silent for how long: pure, and not deceived by a pause of our own.

Silence counts only while we could have heard. When the watch itself was not kept (the machine was frozen, the process
stopped), everybody gets that time back: a late look says something about us, not about them.
"""

from __future__ import annotations

from typing import Iterable

LATE_S = 3.0
"""How far apart two looks may be before the time between them counts as a pause of our own."""


class Heartbeats:
    """The last word of each of several others. Times are monotonic seconds."""

    def __init__(self, names: Iterable[str], now: float) -> None:
        self._heard: dict[str, float] = dict.fromkeys(names, now)
        self._looked = now

    def heard(self, name: str, now: float) -> None:
        """A word of `name` has come."""
        self._heard[name] = now

    def forget(self, name: str) -> None:
        """No word of `name` is expected any more."""
        self._heard.pop(name, None)

    def look(self, now: float) -> None:
        """To be called at least every second."""
        pause = now - self._looked
        if pause > LATE_S:
            self._heard = {name: min(now, at + pause) for name, at in self._heard.items()}
        self._looked = now

    def silent(self, now: float, for_s: float) -> list[str]:
        """Those whose last word is at least `for_s` ago."""
        return [name for name, at in self._heard.items() if now - at >= for_s]
