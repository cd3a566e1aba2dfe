"""Results of `pylaunch bench` in the report of one of its runs. Pure.

Names of hosts become text of a plot, so they are masked and made visible before it is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pylaunch.agent.shared.dataclass import dataclass, replace
from pylaunch.features.bench.judgement.summary import BenchSummary, SizeResult, sections
from pylaunch.model.sanitise import visible_line

MOST_VERDICTS = 200
MOST_SIZES = 500
LONGEST_NAME = 64
"""Characters of the name of a host in a plot."""


@dataclass(frozen=True)
class MeasuredSection:
    """Content of the section about a measurement."""

    backend: str
    ranks: int
    runs: Sequence[str]
    verdicts: Sequence[str]
    plots: Mapping[str, str]
    """Heading → SVG, safe to insert as it is."""

    sizes: Sequence[SizeResult]
    is_incomplete: bool


def measured_section(summary: BenchSummary | None, hide: Callable[[str], str]) -> MeasuredSection | None:
    """Return the section of `summary`; None for a run that is not of `pylaunch bench`."""
    if summary is None:
        return None
    names = [visible_line(hide(name))[:LONGEST_NAME] for name in summary.hosts]
    plotted = replace(summary, incomplete=visible_line(hide(summary.incomplete)))
    return MeasuredSection(
        summary.backend, summary.ranks, summary.runs, summary.verdicts[:MOST_VERDICTS], sections(plotted, names),
        summary.collectives[:MOST_SIZES], bool(summary.incomplete),
    )  # fmt: skip
