"""How long nodes have been silent, and what to do about it. Pure.

    heard ──SUSPECT of the time-out──► suspected: try a second way, keep the first
      ▲                                    │
      └──────── any word, either way ──────┼──time-out──► lost

A slow or broken connection is found out by the second one; a node that answers neither is lost. Silence counts only
while somebody listened: a controller that was stopped, or busy, gives everybody that time back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

SUSPECT = 0.4
"""The part of the time-out after which a second connection is tried."""

LATE_S = 2.0
"""Looks that are further apart say that we were not there."""


@dataclass(frozen=True)
class Liveness:
    """When each node was last heard. Times are on one monotonic clock, in seconds."""

    timeout_s: float
    looked: float
    heard: Mapping[str, float] = field(default_factory=dict)

    def with_look(self, now: float, heard: Mapping[str, float], deaf_to: Iterable[str]) -> Liveness:
        """A look at all nodes: when each was last `heard`, and those nobody listened to since the last look."""
        known = {name: max(at, self.heard.get(name, at)) for name, at in {**self.heard, **heard}.items()}
        pause = now - self.looked
        if pause > LATE_S:
            known = {name: min(now, at + pause) for name, at in known.items()}
        return replace(self, looked=now, heard=known | dict.fromkeys(deaf_to, now))

    def without(self, name: str) -> Liveness:
        """No more is expected of `name`."""
        return replace(self, heard={each: at for each, at in self.heard.items() if each != name})

    def suspected(self) -> tuple[str, ...]:
        """Nodes to try a second way."""
        return self._since(self.timeout_s * SUSPECT)

    def lost(self) -> tuple[str, ...]:
        """Nodes to give up."""
        return self._since(self.timeout_s)

    def left_s(self, name: str) -> float:
        """How long `name` may still be silent."""
        return self.timeout_s - (self.looked - self.heard.get(name, self.looked))

    def _since(self, seconds: float) -> tuple[str, ...]:
        return tuple(name for name, at in self.heard.items() if self.looked - at >= seconds)
