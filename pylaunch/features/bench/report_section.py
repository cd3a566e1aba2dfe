"""Results of `pylaunch bench` in the report of one of its runs.

Names of hosts become text of a plot, so they are masked and made visible before it is drawn.
"""

from collections.abc import Callable

from pylaunch.base.dataclass import replace
from pylaunch.features.bench.judgement.summary import BenchSummary, sections
from pylaunch.features.bench.run.summary_file import read_bench_summary
from pylaunch.model.run import RunRecord
from pylaunch.model.text.sanitise import visible_line
from pylaunch.terminal.doors import Measured, MeasuredSection

MOST_VERDICTS = 200
MOST_SIZES = 500
LONGEST_NAME = 64
"""Characters of the name of a host in a plot."""

COLUMNS = ("Operation", "Bytes", "Time, us", "Bus bandwidth, GB/s", "Wrong")


def measured(record: RunRecord) -> Measured | None:
    """Return the section of the measurement that `record` was a part of; None for a run that is not of `bench`.

    Raises UsageError for results that cannot be read.
    """
    summary = read_bench_summary(record.plan.run)
    return None if summary is None else measured_section(summary)


def measured_section(summary: BenchSummary) -> Measured:
    """Return the section of `summary`."""

    def section(hide: Callable[[str], str]) -> MeasuredSection:
        names = [visible_line(hide(name))[:LONGEST_NAME] for name in summary.hosts]
        plotted = replace(summary, incomplete=visible_line(hide(summary.incomplete)))
        about = (
            f"pylaunch bench, {summary.ranks} ranks, backend {summary.backend}"
            f"{', incomplete' if summary.incomplete else ''}, runs {', '.join(summary.runs)}. "
            "Rates are decimal: 1 GB/s is 10^9 bytes per second."
        )
        rows = [
            (each.operation, str(each.size), f"{each.seconds * 1e6:.1f}", f"{each.bandwidth:.3f}", str(each.wrong))
            for each in summary.collectives[:MOST_SIZES]
        ]
        return MeasuredSection(about, summary.verdicts[:MOST_VERDICTS], sections(plotted, names), COLUMNS, rows)

    return section
