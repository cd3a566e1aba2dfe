"""Results of one measurement as the records of its runs keep them, and their plots. Pure.

A summary is bounded: of many samples of latency, evenly chosen ones are kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from pylaunch.base.dataclass import dataclass, field
from pylaunch.features.bench.judgement.measurements import CollectiveTimed, LatencyTimed
from pylaunch.features.bench.judgement.operations import bus_bandwidth
from pylaunch.features.bench.judgement.pairs import Pair
from pylaunch.features.bench.judgement.plots import bandwidth_plot, latency_plot, pair_heatmap

MOST_SAMPLES = 500
"""Latencies of one kind; they show its distribution in steps of 0.2 %."""

HEADINGS = {
    "bandwidth": "Bus bandwidth over size",
    "pairs": "Rates of pairs relative to the median",
    "latency": "Latency: share of messages that took at most so long",
}
"""Heading of each plot."""


@dataclass(frozen=True)
class SizeResult:
    """One collective at one size."""

    operation: str
    size: int
    """Bytes."""

    seconds: float
    bandwidth: float
    """On the bus, GB/s."""

    wrong: int
    """Elements with a wrong value."""


@dataclass(frozen=True)
class BenchSummary:
    """Results of all runs of one measurement."""

    hosts: tuple[str, ...]
    backend: str
    ranks: int
    runs: tuple[str, ...]
    verdicts: tuple[str, ...] = ()
    """Stages and verdicts, one line each."""

    collectives: tuple[SizeResult, ...] = ()
    latencies: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Kind → sorted seconds."""

    pairs: tuple[tuple[int, int, float], ...] = ()
    """Indexes of two hosts, and their lowest rate in GB/s."""

    incomplete: str = ""
    """Line that says that the measurement is incomplete; "" for a complete one."""


def size_results(collectives: Iterable[CollectiveTimed], ranks: int) -> tuple[SizeResult, ...]:
    """Return the median result of each size of each collective."""
    return tuple(
        SizeResult(
            each.operation.value, each.size, median(each.seconds),
            bus_bandwidth(each.operation, each.size, median(each.seconds), ranks), each.wrong,
        )
        for each in collectives
    )  # fmt: skip


def latency_samples(lines: Iterable[LatencyTimed]) -> dict[str, tuple[float, ...]]:
    """Return the latencies of each kind, sorted; of more than MOST_SAMPLES, evenly chosen ones with least and most."""
    found: dict[str, list[float]] = {}
    for line in lines:
        found.setdefault(line.of, []).extend(line.seconds)
    return {kind: _thinned(sorted(seconds)) for kind, seconds in found.items()}


def _thinned(values: Sequence[float]) -> tuple[float, ...]:
    if len(values) <= MOST_SAMPLES:
        return tuple(values)
    return tuple(values[index * (len(values) - 1) // (MOST_SAMPLES - 1)] for index in range(MOST_SAMPLES))


def lowest_rates(rates: Mapping[Pair, Sequence[float]]) -> tuple[tuple[int, int, float], ...]:
    """Return the lowest rate of each pair."""
    return tuple((first, second, min(found)) for (first, second), found in sorted(rates.items()) if found)


def drawn(summary: BenchSummary, hosts: Sequence[str]) -> dict[str, str]:
    """Return the plots of what was measured: name → SVG.

    `hosts` are the names to show, in the order of those of `summary`.
    """
    plots: dict[str, str] = {}
    curves: dict[str, list[tuple[float, float]]] = {}
    for each in summary.collectives:
        if each.bandwidth > 0:
            curves.setdefault(each.operation, []).append((each.size, each.bandwidth))
    if curves:
        plots["bandwidth"] = bandwidth_plot(curves, summary.incomplete)
    if summary.pairs:
        rates = {(first, second): (rate,) for first, second, rate in summary.pairs}
        plots["pairs"] = pair_heatmap(hosts, rates, summary.incomplete)
    latencies = {kind: seconds for kind, seconds in summary.latencies.items() if seconds}
    if latencies:
        plots["latency"] = latency_plot(latencies, summary.incomplete)
    return plots


def sections(summary: BenchSummary, hosts: Sequence[str]) -> dict[str, str]:
    """Return the plots of `drawn`: heading → SVG."""
    return {HEADINGS[name]: plot for name, plot in drawn(summary, hosts).items()}
