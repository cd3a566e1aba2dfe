"""Part of a stage that was measured before it was interrupted or failed. Pure."""

from collections.abc import Sequence

from pylaunch.features.bench.judgement.measurements import (
    BarrierPassed,
    CollectiveTimed,
    LatencyTimed,
    Readings,
    SumChecked,
)
from pylaunch.features.bench.run.events import BenchStage

NOTHING = "nothing"

_OF_RANKS = {
    BenchStage.BARRIER: BarrierPassed,
    BenchStage.CORRECTNESS: SumChecked,
}
"""Stages in which each rank writes one line."""


def partial_result(stage: BenchStage, readings: Readings, pairs: tuple[int, int]) -> str:
    """Return the part of `stage` that is in `readings`; NOTHING if it has no results. `pairs`: measured, planned."""
    if stage is BenchStage.SWEEP:
        return _of_sweep(readings.of(CollectiveTimed))
    if stage is BenchStage.PAIRS:
        measured, planned = pairs
        return f"{measured} of {planned} pairs" if measured else NOTHING
    if stage is BenchStage.LATENCY:
        return _counted(len(readings.of(LatencyTimed)), "latency", "latencies")
    kind = _OF_RANKS.get(stage)
    ranks = 0 if kind is None else len({each.rank for each in readings.of(kind)})
    return f"{ranks} of {readings.ranks} ranks" if ranks else NOTHING


def _of_sweep(results: Sequence[CollectiveTimed]) -> str:
    if not results:
        return NOTHING
    last = results[-1]
    of_last = f"{last.operation.value} of {last.size} bytes"
    return of_last if len(results) == 1 else f"{len(results)} results, the last one {of_last}"


def _counted(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}" if count else NOTHING
