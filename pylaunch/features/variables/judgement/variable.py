"""Facts about one variable, with their source."""

from pylaunch.base.dataclass import dataclass
from pylaunch.features.variables.judgement.kinds import Number, ValueKind
from pylaunch.model.setting import Source


@dataclass(frozen=True)
class Variable:
    """A variable that somebody reads."""

    name: str
    kind: ValueKind | Number
    source: Source
    since: str | None = None
    """First version that reads it; None where the source does not say."""

    until: str | None = None
    """Last version that reads it; None: the newest still does."""

    instead: str | None = None
    """The name that has replaced it; the old one still works unless `until` says otherwise."""

    debug_only: bool = False
    """Fine for an experiment, not to be kept."""

    note: str = ""


@dataclass(frozen=True)
class UnreadVariable:
    """A name found in guides that the program it seems to belong to does not read."""

    name: str
    instead: str
    """Text to write instead."""

    source: Source
