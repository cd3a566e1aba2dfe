"""Warnings of a verb that end nothing, for the callers that want them."""

from collections.abc import Callable

Notes = Callable[[str], None]
"""Receives one complete line: a damaged record, a full disk, a host that left out something."""


def ignore(_: str) -> None:
    """Drop the note."""
