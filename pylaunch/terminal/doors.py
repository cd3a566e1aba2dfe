"""The doors through which a feature joins the command line: a verb, an option of `start`, a section of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from pylaunch.base.dataclass import dataclass

if TYPE_CHECKING:
    from pylaunch.model.outcome import Outcome


class VerbGroup(Enum):
    """Groups of verbs in `pylaunch --help`, in their order."""

    PREPARE = "Prepare"
    RUN = "Run"
    WATCH = "Watch"
    DIAGNOSE = "Diagnose"
    MAINTAIN = "Maintain"


@dataclass(frozen=True)
class Verb:
    """A verb whose module is imported when the verb is used."""

    module: str
    """Module that names its command `command`."""

    help: str
    """Summary of the verb in one line of `pylaunch --help` with 80 columns."""

    after: str = ""
    """Verb that precedes this one in the list of verbs; "" for the next place."""

    group: VerbGroup | None = None
    """Group in the list of verbs; None for that of `after`."""


AtEnd: TypeAlias = "Callable[[str, Outcome | None], None]"
"""Act at the end of a start: the id of its first attempt, and the outcome; None for an error."""


@dataclass(frozen=True)
class StartOption:
    """An option of `start` by which a feature acts when the run has ended."""

    name: str
    """Parameter of click: "report" for --report."""

    module: str
    """Module whose `at_end(value)` returns an AtEnd, or raises UsageError for the value."""

    attributes: Mapping[str, Any]
    """Those of click.option."""


@dataclass(frozen=True)
class MeasuredSection:
    """Section of a report about a measurement; its texts are masked and bounded."""

    about: str
    verdicts: Sequence[str]
    plots: Mapping[str, str]
    """Heading → SVG, safe to insert as it is."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


Measured = Callable[[Callable[[str], str]], MeasuredSection]
"""Return the section; the argument masks secrets."""
