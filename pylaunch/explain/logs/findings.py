"""Causes that no single text shows: comparisons of the ranks in the logs, and tables of tools. Pure.

Each further reader of a log plugs in here: a `Finder` in FINDERS. It reads the matches of signatures
(`LogFacts.of(ID)`, also those with the role context) and the lines of its topic (`LogScan.kept[NAME]`, `topics.py`).
The judgement ranks its findings after roots that a signature knows, and before exceptions and errors that none knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pylaunch.base.dataclass import dataclass
from pylaunch.explain.logs.evidence import EvidenceLine
from pylaunch.explain.logs.facts import LogFacts
from pylaunch.explain.logs.indicated import evidence_of, naming
from pylaunch.explain.logs.reading import Clue
from pylaunch.model.confidence import Confidence


@dataclass(frozen=True)
class LogFinding:
    """Cause that several lines show together."""

    id: str
    """Name of the rule, as a verdict prints it in place of a signature."""

    clue: Clue
    """Class of the cause, its text, confidence, and the ranks that it names."""

    evidence: tuple[EvidenceLine, ...]
    """Lines that show it; at least one."""


Finder = Callable[[LogFacts], Iterable[LogFinding]]

MOST_INDICATED = 3
"""Causes that tables and comparisons name at most."""


def _indicated(facts: LogFacts) -> Iterable[LogFinding]:
    """Yield the causes that tables and comparisons name, each once."""
    found: dict[str, LogFinding] = {}
    for each in naming(facts):
        clue = Clue(each.cause, each.text, each.names or Confidence.LOW, each.ranks, because=each.because)
        found.setdefault(each.cause, LogFinding("comparison", clue, evidence_of(each)))
    return list(found.values())[:MOST_INDICATED]


FINDERS: tuple[Finder, ...] = (_indicated,)


def findings_of(facts: LogFacts) -> list[LogFinding]:
    """Return the findings of all finders."""
    return [found for finder in FINDERS for found in finder(facts)]
