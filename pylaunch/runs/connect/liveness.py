"""Detection of silent nodes by their heartbeats. Pure.

    heard ──SUSPECT of the timeout──► suspected: open a second connection, keep the first
      ▲                                   │
      └─── any message, on either one ────┼──timeout──► lost

The second connection detects that the first one is slow or broken; a node that answers on neither is lost. Silence
counts only while the controller listens: time during which it was stopped or busy is not counted.
"""

from collections.abc import Iterable, Mapping

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.protocol.messages import PAUSE_S

SUSPECT = 0.4
"""Part of the timeout after which a second connection is opened."""


@dataclass(frozen=True)
class Liveness:
    """Time of the last message of each node. Times are on one monotonic clock, in seconds."""

    timeout_s: float
    looked: float
    heard: Mapping[str, float] = field(default_factory=dict)

    def with_look(self, now: float, heard: Mapping[str, float], deaf_to: Iterable[str]) -> "Liveness":
        """Update the time each node was last `heard`. Nodes in `deaf_to` were not listened to since the last look."""
        known = {name: max(at, self.heard.get(name, at)) for name, at in {**self.heard, **heard}.items()}
        pause = now - self.looked
        if pause > PAUSE_S:
            known = {name: min(now, at + pause) for name, at in known.items()}
        return replace(self, looked=now, heard=known | dict.fromkeys(deaf_to, now))

    def without(self, name: str) -> "Liveness":
        """Expect no more messages of `name`."""
        return replace(self, heard={each: at for each, at in self.heard.items() if each != name})

    def suspected(self) -> tuple[str, ...]:
        """Return nodes to open a second connection to."""
        return self._since(self.timeout_s * SUSPECT)

    def lost(self) -> tuple[str, ...]:
        """Return nodes to give up."""
        return self._since(self.timeout_s)

    def left_s(self, name: str) -> float:
        """Return the seconds that `name` may still be silent."""
        return self.timeout_s - (self.looked - self.heard.get(name, self.looked))

    def _since(self, seconds: float) -> tuple[str, ...]:
        return tuple(name for name, at in self.heard.items() if self.looked - at >= seconds)
