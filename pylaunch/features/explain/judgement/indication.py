"""Lines in which ranks state facts, and the differences between ranks that support a cause. Pure."""

import re
from collections.abc import Mapping, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.line import LogTime, Origin

OF_A_REPORT = 3
"""Reports of one kind that are kept of a process, at the beginning of a log and at its end."""

OF_A_FACT = 64
"""Lines of one kind that are kept of a process."""


@dataclass(frozen=True)
class LogForm:
    """Form of a text that states facts and reports no failure."""

    id: str
    anchors: tuple[str, ...]
    """Literals: the first line of each text contains one."""

    pattern: re.Pattern[str]
    """Expression of the first line."""

    follows: int = 0
    """Lines after the first that may belong to it."""

    most: int = OF_A_FACT
    """Texts that are kept of a process."""

    def key(self, text: str) -> str | None:
        """Return None for a line that begins no such text."""
        return None if self.pattern.search(text.strip()) is None else ""


@dataclass(frozen=True)
class LogExcerpt:
    """Text of a known form."""

    origin: Origin
    time: LogTime | None
    file: str
    line: int
    """Number of its first line."""

    lines: tuple[str, ...]
    """First line and those of the same process after it, without their prefixes."""

    groups: Mapping[str, str]
    """Groups of the pattern in the first line."""


def ranks_in(text: str) -> set[int]:
    """Return the ranks of a list such as "0, 3, 5"."""
    return {int(each) for each in re.findall(r"\d{1,7}", text)}


Excerpts = Mapping[str, Sequence[LogExcerpt]]
"""Texts of known forms in all logs, by form."""


@dataclass(frozen=True)
class Indication:
    """Fact that supports a cause."""

    cause: str
    """Id of the class."""

    text: str
    """Clause for the verdict."""

    excerpt: LogExcerpt
    at: int = 0
    """Line of the excerpt that shows it, from 0."""

    names: Confidence | None = None
    """Confidence with which it names the cause where no other text does; None if it supports other texts only."""

    ranks: tuple[int, ...] = ()
    """Ranks that differ from a majority."""

    because: str = ""

    others: tuple[LogExcerpt, ...] = ()
    """Further lines that show it."""

    may_end: bool = False
    """A wait, which names no cause if the programs continue after its last report."""

    fails: bool = False
    """It names a cause only of a failure that other lines show."""
