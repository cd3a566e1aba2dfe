"""Output that is skipped for a reader who is too slow."""

from __future__ import annotations

from pylaunch.agent import wire
from pylaunch.model.size import shown_size

LIVE_LAG = 16 << 20
"""Bytes of one log that may wait for a live reader; beyond that, the oldest are skipped."""


def skipped_line(host: str, skipped: wire.Skipped) -> str:
    """Return the line that is printed in place of output that is missing."""
    source = skipped.stream.partition(".")[0]
    return f"{host}:{source} | … {shown_size(skipped.offset - skipped.start)} skipped, in {host}:{skipped.path}"
