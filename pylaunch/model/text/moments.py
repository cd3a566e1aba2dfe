"""Times that another party claims, within what a calendar has. Pure."""

from datetime import UTC, datetime

FIRST = 0.0
LAST = 253370764800.0
"""9999-01-01 UTC, in seconds since the epoch: the last year of a `datetime`, with room for every time zone."""


def bounded_time(seconds: float) -> float:
    """Return the time, or the first or last one that can be shown: the clock of a node may say anything."""
    return min(max(seconds, FIRST), LAST)


def in_utc(seconds: float) -> datetime:
    """Return seconds since the epoch as a time in UTC; see `bounded_time`."""
    return datetime.fromtimestamp(bounded_time(seconds), tz=UTC)
