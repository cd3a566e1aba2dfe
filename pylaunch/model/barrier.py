"""The barrier of a start: no node is released before every node is ready. Pure; `session` acts on its decisions.

Waiting ──all prepared──► released
   │
   ├──a node refused, was lost, or the deadline passed──► aborted, once every other node has answered too
   │                                                      (or SETTLE later), so that all reasons are reported at once
"""

from collections.abc import Mapping
from enum import Enum

from pylaunch.base.dataclass import dataclass, field, replace

SETTLE_S = 5.0
"""Time to wait for other answers after the first refusal."""


class Decision(Enum):
    """Next step of the session."""

    WAIT = "wait"
    RELEASE = "release"
    ABORT = "abort"


@dataclass(frozen=True)
class Barrier:
    """Nodes that are ready, nodes that refused, and the deadline. Times are on one monotonic clock, in seconds."""

    expected: frozenset[str]
    deadline: float
    prepared: frozenset[str] = frozenset()
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_settling: bool = False
    """The deadline is that of the answers after the first refusal, ahead of that of the start."""

    def with_prepared(self, host: str) -> "Barrier":
        """`host` is ready."""
        return replace(self, prepared=self.prepared | {host})

    def with_refused(self, host: str, reasons: tuple[str, ...], now: float) -> "Barrier":
        """`host` cannot take part. The other nodes have SETTLE_S left to report their own reasons."""
        refused = {**self.refused, host: (*self.refused.get(host, ()), *reasons)}
        after = replace(self, refused=refused, prepared=self.prepared - {host})
        if self.refused or now + SETTLE_S >= self.deadline:
            return after
        return replace(after, deadline=now + SETTLE_S, is_settling=True)

    def with_pause(self, seconds: float) -> "Barrier":
        """Prolong the wait by a time in which nobody listened to the nodes."""
        return replace(self, deadline=self.deadline + seconds)

    def decide(self, now: float) -> Decision:
        """Return the next step at `now`."""
        if self.prepared == self.expected:
            return Decision.RELEASE
        answered = self.prepared | self.refused.keys()
        if now >= self.deadline or (self.refused and answered == self.expected):
            return Decision.ABORT
        return Decision.WAIT

    @property
    def silent(self) -> tuple[str, ...]:
        """Hosts that have not answered yet. They are late only at the deadline of the start."""
        return tuple(sorted(self.expected - self.prepared - self.refused.keys()))
