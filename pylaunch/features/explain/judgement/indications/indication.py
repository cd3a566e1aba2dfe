"""Indication: a difference between ranks that supports a cause. Pure."""

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.indications.form import LogExcerpt
from pylaunch.model.diagnosis.confidence import Confidence


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
