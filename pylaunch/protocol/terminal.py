"""Messages of the terminal of one rank. Bytes are Latin-1 text: one character for each byte."""

from __future__ import annotations

from pylaunch.base.dataclass import dataclass

ENCODING = "latin-1"
MOST_TYPED = 4096
"""Bytes of one TerminalInput: as many as a terminal takes at once."""

MOST_WRITTEN = 16 << 10
"""Bytes of one TerminalOutput."""

MOST_ROWS = (1 << 16) - 1
"""Rows and columns of a terminal are 16 bits wide."""


@dataclass(frozen=True)
class TerminalInput:
    """Input for the rank that has a terminal, and the size of the terminal of the person, whose controller gets the
    output from then on."""

    data: str
    rows: int
    columns: int


@dataclass(frozen=True)
class TerminalOutput:
    """Bytes that a rank wrote to its terminal."""

    rank: int
    data: str
