"""Keep the results of `pylaunch bench` with the records of its runs, for `pylaunch report`."""

from __future__ import annotations

from collections.abc import Callable

from pylaunch.features.bench.judgement.summary import BenchSummary
from pylaunch.features.bench.run.summary_file import write_bench_summary


def keep_results(summary: BenchSummary, complain: Callable[[str], None]) -> None:
    """Write `summary` to the record of each of its runs; call `complain` with the first error."""
    for run in summary.runs:
        try:
            write_bench_summary(run, summary)
        except OSError as error:
            complain(f"warning: pylaunch report {run} will lack these results: {error.strerror}")
            return
