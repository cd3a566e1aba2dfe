"""Lines of logs that support a verdict. Pure."""

import re

from pylaunch.base.dataclass import dataclass
from pylaunch.verdict.logs.scan import KeptLine, LogMatch

EVIDENCE_LENGTH = 240
_OVERWRITTEN = re.compile(r" {20,}")
"""Blanks with which a progress bar clears its line."""


@dataclass(frozen=True)
class EvidenceLine:
    """Line of a log that supports a cause."""

    file: str
    line: int
    who: str
    """Process that wrote it: "rank 3 on n2"; "" if the log does not show it."""

    text: str


def evidence_of(line: LogMatch | KeptLine) -> EvidenceLine:
    """Return a line of a log as evidence."""
    return EvidenceLine(line.file, line.line, str(line.origin), _OVERWRITTEN.sub(" ", line.text)[:EVIDENCE_LENGTH])
