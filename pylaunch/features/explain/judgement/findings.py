"""Causes that no single text shows: comparisons of the ranks in the logs. Pure.

A further comparison of ranks is a module with FORMS and `read`, named in `indications.py`. The judgement
ranks findings after roots that a signature knows, and before exceptions and errors that none knows.
"""

from collections.abc import Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.indications.indicated import indication_lines, naming
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.clue import Clue
from pylaunch.verdict.logs.evidence import EvidenceLine
from pylaunch.verdict.logs.facts import LogFacts


@dataclass(frozen=True)
class LogFinding:
    """Cause that several lines show together."""

    id: str
    """Name of the rule, as a verdict prints it in place of a signature."""

    clue: Clue
    """Class of the cause, its text, confidence, and the ranks that it names."""

    evidence: tuple[EvidenceLine, ...]
    """Lines that show it; at least one."""


MOST_INDICATED = 3
"""Causes that comparisons name at most."""


def findings_of(facts: LogFacts, indications: Sequence[Indication]) -> list[LogFinding]:
    """Return the causes that comparisons name, each once."""
    found: dict[str, LogFinding] = {}
    for each in naming(facts, indications):
        clue = Clue(each.cause, each.text, each.names or Confidence.LOW, each.ranks, because=each.because)
        found.setdefault(each.cause, LogFinding("comparison", clue, indication_lines(each)))
    return list(found.values())[:MOST_INDICATED]
