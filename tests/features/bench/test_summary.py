"""A summary keeps the distribution of many latencies, and shows plots of what was measured only."""

from __future__ import annotations

from statistics import median
from xml.etree import ElementTree

import pytest

from pylaunch.features.bench.judgement.measurements import CollectiveTimed, LatencyTimed
from pylaunch.features.bench.judgement.operations import Operation
from pylaunch.features.bench.judgement.summary import (
    HEADINGS,
    MOST_SAMPLES,
    BenchSummary,
    SizeResult,
    drawn,
    latency_samples,
    lowest_rates,
    sections,
    size_results,
)


def timed(rank: int, *seconds: float) -> LatencyTimed:
    return LatencyTimed(rank=rank, of="round trip", size=4, seconds=seconds, peer=rank + 1)


def test_of_many_latencies_least_median_and_most_remain() -> None:
    lines = [timed(rank, *(1e-5 * (1 + number) for number in range(200))) for rank in range(0, 400, 2)]
    (kept,) = latency_samples(lines).values()
    every = sorted(value for line in lines for value in line.seconds)
    assert len(kept) == MOST_SAMPLES
    assert (kept[0], kept[-1]) == (every[0], every[-1])
    assert median(kept) == pytest.approx(median(every), rel=0.01)
    assert list(kept) == sorted(kept)


def test_few_latencies_are_kept_as_they_are() -> None:
    assert latency_samples([timed(0, 3e-5, 4e-5), timed(2, 1e-5)]) == {"round trip": (1e-5, 3e-5, 4e-5)}


def test_the_results_are_medians_and_the_lowest_rates() -> None:
    line = CollectiveTimed(
        rank=0,
        operation=Operation.ALL_REDUCE,
        size=1 << 20,
        seconds=(1e-3, 2e-3, 9e-3),
        wrong=1,
        iterations=3,
        warm_up=1,
    )
    (found,) = size_results([line], 2)
    assert (found.operation, found.seconds, found.wrong) == ("all-reduce", 2e-3, 1)
    assert found.bandwidth == pytest.approx((1 << 20) / 2e-3 / 1e9)
    assert lowest_rates({(0, 1): (2.0, 1.0), (1, 2): ()}) == ((0, 1, 1.0),)


def test_only_what_was_measured_has_a_section_and_a_plot() -> None:
    summary = BenchSummary(("n1", "n2"), "gloo", 2, ("7f3a",), pairs=((0, 1, 1.0),))
    assert list(sections(summary, summary.hosts)) == [HEADINGS["pairs"]]
    plots = drawn(summary, ("shown 1", "shown 2"))
    assert list(plots) == ["pairs"]
    assert "shown 1 and shown 2" in plots["pairs"]
    assert "n1" not in plots["pairs"]
    ElementTree.fromstring(plots["pairs"])


def test_what_was_not_measured_has_no_plot() -> None:
    nothing = SizeResult("all-reduce", 0, 1e-3, bandwidth=0.0, wrong=0)
    summary = BenchSummary(("n1", "n2"), "gloo", 2, ("7f3a",), collectives=(nothing,), latencies={"round trip": ()})
    assert drawn(summary, summary.hosts) == sections(summary, summary.hosts) == {}
