"""Output that was not shown: how far behind a person who watches may fall, and what is said then."""

from __future__ import annotations

from pylaunch.agent import wire
from pylaunch.model.size import shown_size

LIVE_LAG = 16 << 20
"""Bytes of one log that may wait for somebody who watches it live; beyond that, the newest is shown."""


def told(host: str, skipped: wire.Skipped) -> str:
    """The line that stands where output is missing."""
    source = skipped.stream.partition(".")[0]
    return f"{host}:{source} | … {shown_size(skipped.offset - skipped.start)} skipped, in {host}:{skipped.path}"
