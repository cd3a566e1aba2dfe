"""A latency that is 10 us longer is visible in the lines and the JSON of bench."""

import re

import pytest

from pylaunch.base.dataclass import replace
from pylaunch.features.bench.judgement.bounds import Conditions
from pylaunch.features.bench.judgement.confirmation import PairVerdict
from pylaunch.features.bench.judgement.measurements import CollectiveTimed, LatencyTimed
from pylaunch.features.bench.judgement.sweep import Operation
from pylaunch.features.bench.run.events import BenchBegun, BenchResult
from pylaunch.features.bench.view import BenchView, as_json, conclude, conclusions

DELAY = 10e-6


def result(delay: float) -> BenchResult:
    """A round trip of 50 to 250 us, `delay` seconds longer."""
    seconds = tuple(50e-6 + number * 1e-6 + delay for number in range(200))
    line = LatencyTimed(rank=0, of="round trip", size=4, seconds=seconds, peer=1)
    return BenchResult(("n1", "n2"), Conditions("gloo", 2, 1, {}), latencies=(line,))


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


def sweep(wrong: int = 0) -> BenchResult:
    """A measurement of two sizes, with the verdict that three pairs are equal."""
    timed = tuple(
        CollectiveTimed(rank=0, operation=Operation.ALL_REDUCE, size=size, seconds=(1e-3,), wrong=wrong, iterations=5)
        for size in (4096, 16384)
    )
    pairs = {(0, 1): (1.0,), (0, 2): (1.0,), (1, 2): (1.0,)}
    found = result(0.0)
    return replace(found, runs=("7f3a",), collectives=timed, pair_rates=pairs, verdict=PairVerdict())


def test_the_verdict_is_first_and_the_table_is_there_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    conclude(sweep(), with_table=False)
    short = capsys.readouterr().err.splitlines()
    assert short[0] == "pairs: no slow node and no slow link among 3 measured pairs"
    assert short[-1] == "results of collectives: 2; shown with --table"
    assert [line for line in short if line.startswith("all-reduce ")] == []
    conclude(sweep(), with_table=True)
    long = capsys.readouterr().err.splitlines()
    assert long[0] == short[0]
    assert [line.split()[:2] for line in long[-2:]] == [["all-reduce", "4096"], ["all-reduce", "16384"]]


def test_while_it_measures_only_wrong_results_have_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[str] = []
    view = BenchView(shown.append)
    view.take(BenchBegun("7f3a", "gloo", 2, ("n1", "n2")))
    capsys.readouterr()
    for wrong in (0, 3):
        for event in sweep(wrong).collectives:
            view.take(event)
    assert shown[0] == "all-reduce of 4096 bytes: 1000.0 us"
    assert [line.split()[-1] for line in capsys.readouterr().err.splitlines()] == ["3", "3"]


def test_of_many_round_trips_the_longest_have_a_line() -> None:
    trips = tuple(
        LatencyTimed(rank=rank, of="round trip", size=4, seconds=(1e-6 * (100 + rank),), peer=rank + 1)
        for rank in range(0, 1024, 2)
    )
    found = BenchResult(("n1", "n2"), Conditions("gloo", 1024, 1, {}), latencies=trips)
    lines = [line for line in conclusions(found) if line.startswith("latency")]
    assert [line.partition(":")[0] for line in lines[:3]] == [
        f"latency of round trip between ranks {rank} and {rank + 1}" for rank in (1022, 1020, 1018)
    ]
    assert lines[3:] == ["latency of the 512 round trips, of which the longest are above: median 611.0 us"]
