"""A verb of the command line, as the tables of verbs name it."""

from __future__ import annotations

from pylaunch.base.dataclass import dataclass


@dataclass(frozen=True)
class Verb:
    """A verb whose module is imported when the verb is used."""

    module: str
    """Module that names its command `command`."""

    help: str
    after: str = ""
    """Verb that precedes this one in the list of verbs; "" for the next place."""
