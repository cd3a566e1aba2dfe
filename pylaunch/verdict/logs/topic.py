"""Topic: lines that the scan of a log keeps beside those of the signatures. Pure."""

from collections.abc import Callable

from pylaunch.base.dataclass import dataclass


@dataclass(frozen=True)
class LineTopic:
    """Lines of one subject, found by literals and kept in bounded number."""

    name: str
    anchors: tuple[bytes, ...]
    """Literals: each line of the topic contains one."""

    key: Callable[[str], str | None]
    """Returns what lines of a process must have in common to count as the same; None for a line that is not wanted.

    Gets a line without its prefixes. The number of different keys should be small.
    """

    most: int = 3
    """Lines with the same key that are kept for each process. They count again at the end of a log."""

    at_end: bool = False
    """True for lines that matter at the end of a log alone (`scan.ENDING`)."""

    follows: int = 0
    """Lines after it that are kept with a line: a table has several."""
