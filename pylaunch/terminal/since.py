"""Moments in the past as people write them: how long ago, or when."""

import re
from datetime import datetime, timedelta

ACCEPTED = (
    "expected how long ago, such as 90s, 10m or 1h30m, or when, such as 2026-03-01T14:30 (here) or …T14:30Z (UTC)"
)

_AGO = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def parse_since(text: str, now: datetime) -> float:
    """Return the moment that `text` means, in seconds since the epoch; a time without a zone is one of this machine's.

    Raises ValueError for anything else, and for a moment after `now`.
    """
    moment = _moment(text.strip(), now)
    if moment > now:
        raise ValueError(f"{text} has not come yet: it is {now.isoformat(timespec='seconds')}")
    return moment.timestamp()


def _moment(text: str, now: datetime) -> datetime:
    ago = _AGO.fullmatch(text)
    try:
        if text and ago is not None:
            days, hours, minutes, seconds = (int(number or 0) for number in ago.groups())
            return now - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(f"{ACCEPTED}; got {text!r}") from None
