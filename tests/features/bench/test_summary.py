"""A summary keeps the distribution of latencies and lies in the record of its run; it is compared with a baseline."""

from pathlib import Path
from statistics import median
from xml.etree import ElementTree

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.bench.judgement.baseline import Level, regressions
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
from pylaunch.features.bench.run.summary_file import read_bench_summary, write_bench_summary
from pylaunch.store.paths import run_paths
from tests.features.bench.test_report_section import bench


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


SUMMARY = bench(("n1", "n2", "n3"), "pairs: no slow node", "7f3a9c01")


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_what_is_written_is_read() -> None:
    paths = run_paths("7f3a9c01")
    paths.directory.mkdir(parents=True)
    paths.plan.write_text("{}")
    assert read_bench_summary("7f3a9c01") is None
    write_bench_summary("7f3a9c01", SUMMARY)
    assert read_bench_summary("7f3a9c01") == SUMMARY
    assert {path.name for path in paths.directory.iterdir()} == {"plan.json", "bench.json"}


def test_a_run_without_a_record_gets_none() -> None:
    write_bench_summary("7f3a9c01", SUMMARY)
    assert not run_paths("7f3a9c01").directory.exists()


def test_a_damaged_file_is_named() -> None:
    path = run_paths("7f3a9c01").bench
    path.parent.mkdir(parents=True)
    path.write_text('{"hosts": 7}')
    with pytest.raises(UsageError, match=r"bench\.json: the results of bench cannot be read"):
        read_bench_summary("7f3a9c01")


def level(bandwidth: float, noise: float, size: int = 1 << 20) -> Level:
    return Level("all-reduce", size, bandwidth, noise)


def test_a_regression_has_its_size_loss_and_noise() -> None:
    (found,) = regressions([level(10.0, 0.03)], [level(7.0, 0.04)])
    assert (found.operation, found.size) == ("all-reduce", 1 << 20)
    assert found.loss == pytest.approx(0.3)
    assert found.noise == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (level(10.0, 0.0), level(9.2, 0.0)),
        (level(10.0, 0.1), level(7.0, 0.1)),
        (level(10.0, 0.0), level(12.0, 0.0)),
        (level(0.0, 0.0), level(1.0, 0.0)),
    ],
)
def test_small_losses_and_losses_within_the_noise_are_none(before: Level, now: Level) -> None:
    assert regressions([before], [now]) == ()


def test_sizes_that_the_baseline_lacks_are_not_compared() -> None:
    assert regressions([level(10.0, 0.0)], [level(0.1, 0.0, 4)]) == ()
