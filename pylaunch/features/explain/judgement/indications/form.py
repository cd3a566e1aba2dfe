"""Texts that are recognised by their form: lines in which a rank states facts. Pure."""

import re
from collections.abc import Mapping, Sequence

from pylaunch.base.dataclass import dataclass
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
