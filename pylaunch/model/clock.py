"""Offset of a node's clock from ours, measured over the open connection. Pure.

As in NTP (RFC 5905, section 8): the node's reading is taken to belong to the middle of the round trip, and the round
trip that took least time is the one to believe. The truth lies within half that round trip.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from pylaunch.base.dataclass import dataclass

FIRST = 0.0
LAST = 253370764800.0
"""9999-01-01 UTC, in seconds since the epoch: the last year of a `datetime`, with room for every time zone."""


def bounded_time(seconds: float) -> float:
    """Return the time, or the first or last one that can be shown: the clock of a node may say anything."""
    return min(max(seconds, FIRST), LAST)


def in_utc(seconds: float) -> datetime:
    """Return seconds since the epoch as a time in UTC; see `bounded_time`."""
    return datetime.fromtimestamp(bounded_time(seconds), tz=UTC)


@dataclass(frozen=True)
class Exchange:
    """One ping: our clock before and after, the node's in between. Seconds since the epoch."""

    sent: float
    node: float
    received: float

    @property
    def round_trip(self) -> float:
        """Seconds from question to answer."""
        return self.received - self.sent


@dataclass(frozen=True)
class ClockOffset:
    """The node's clock minus ours, in seconds, give or take `uncertainty`."""

    seconds: float
    uncertainty: float

    def to_ours(self, node_time: float) -> float:
        """Convert a time on the node's clock to ours, within what a calendar has."""
        return bounded_time(node_time - self.seconds)

    def to_node(self, our_time: float) -> float:
        """Convert a time on our clock to the node's."""
        return our_time + self.seconds


def measure(exchanges: Iterable[Exchange]) -> ClockOffset:
    """Return the offset from the fastest of `exchanges`. Raises ValueError if there are none."""
    best = min(exchanges, key=lambda exchange: exchange.round_trip)
    return ClockOffset(best.node - (best.sent + best.received) / 2, best.round_trip / 2)
