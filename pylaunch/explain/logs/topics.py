"""Lines that the scan of a log keeps beside those of the signatures, by topic. Pure.

A finder (`findings.py`) that needs lines of a log adds its topic to TOPICS, and gets them as `LogScan.kept[name]`.
"""

from __future__ import annotations

from collections.abc import Callable

from pylaunch.base.dataclass import dataclass
from pylaunch.explain.logs.error_form import shape_of
from pylaunch.explain.logs.error_words import ANCHORS, WEAK_ANCHORS
from pylaunch.explain.logs.form import LogForm
from pylaunch.explain.logs.forms import FORMS


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


ERRORS = "errors"
"""Name of the topic of lines that have the form of an error."""

LAST_ERRORS = "last errors"
"""Name of the topic of such lines at the end of a log, of which every word counts."""


def _of(form: LogForm) -> LineTopic:
    anchors = tuple(anchor.encode() for anchor in form.anchors)
    return LineTopic(form.id, anchors, form.key, most=form.most, follows=form.follows)


TOPICS: tuple[LineTopic, ...] = (
    LineTopic(ERRORS, ANCHORS, shape_of),
    LineTopic(LAST_ERRORS, WEAK_ANCHORS, shape_of, at_end=True),
    *map(_of, FORMS),
)
