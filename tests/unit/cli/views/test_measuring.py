"""A latency that is 10 us longer is visible in every output of bench: the lines, the JSON and the plot."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from pylaunch.bench.bounds import Conditions
from pylaunch.bench.measurements import LatencyTimed
from pylaunch.bench.plots import HEIGHT, TOP
from pylaunch.cli.views.measuring import as_json, conclusions, plots
from pylaunch.workflows.bench_events import BenchResult

DELAY = 10e-6
SVG = "{http://www.w3.org/2000/svg}"


def result(delay: float) -> BenchResult:
    """A round trip of 50 to 250 us, `delay` seconds longer."""
    seconds = tuple(50e-6 + number * 1e-6 + delay for number in range(200))
    line = LatencyTimed(rank=0, of="round trip", size=4, seconds=seconds, peer=1)
    return BenchResult(("n1", "n2"), Conditions("gloo", 2, 1, 5, {}), latencies=(line,))


def test_the_lines_and_the_json_differ_by_it() -> None:
    shown = [
        [float(number) for number in re.findall(r"([\d.]+) us", next(iter(conclusions(result(delay)))))]
        for delay in (0.0, DELAY)
    ]
    assert [after - before for before, after in zip(*shown, strict=True)] == pytest.approx([10.0] * 3, abs=0.11)
    documents = [as_json(result(delay))["latencies"] for delay in (0.0, DELAY)]
    before, after = (each[0] for each in documents if isinstance(each, list))
    for name in ("least_us", "median_us", "p99_us"):
        assert after[name] - before[name] == pytest.approx(10.0, abs=1e-6)


def test_the_plot_shows_it() -> None:
    """Both curves share the axis, so the plot is drawn from both together."""
    both = BenchResult(
        ("n1", "n2"), Conditions("gloo", 2, 1, 5, {}),
        latencies=(
            *result(0.0).latencies,
            *(LatencyTimed(rank=0, of="all-reduce", size=4, seconds=each.seconds) for each in result(DELAY).latencies),
        ),
    )  # fmt: skip
    lines = ElementTree.fromstring(plots(both)["latency.svg"]).findall(f"{SVG}polyline")
    middles = []
    for line in lines:
        points = [tuple(map(float, point.split(","))) for point in line.get("points", "").split()]
        middles.append(min(points, key=lambda point: abs(point[1] - (TOP + HEIGHT - 40) / 2))[0])
    assert middles[1] - middles[0] > 5  # pixels; coordinates have a tenth of one


def test_of_many_round_trips_the_longest_have_a_line() -> None:
    trips = tuple(
        LatencyTimed(rank=rank, of="round trip", size=4, seconds=(1e-6 * (100 + rank),), peer=rank + 1)
        for rank in range(0, 1024, 2)
    )
    found = BenchResult(("n1", "n2"), Conditions("gloo", 1024, 1, 5, {}), latencies=trips)
    lines = [line for line in conclusions(found) if line.startswith("latency")]
    assert [line.partition(":")[0] for line in lines[:3]] == [
        f"latency of round trip between ranks {rank} and {rank + 1}" for rank in (1022, 1020, 1018)
    ]
    assert lines[3:] == ["latency of the 512 round trips, of which the longest are above: median 611.0 us"]
