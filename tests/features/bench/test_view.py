"""Lines and JSON of a measurement."""

import pytest

from pylaunch.features.bench.events import BenchBegun, BenchResult
from pylaunch.features.bench.judgement.confirmation import PairVerdict, SlowNode
from pylaunch.features.bench.judgement.measurements import AllReduceTimed
from pylaunch.features.bench.view import BenchView, as_json, conclusions


def test_a_size_is_one_line_with_its_bus_bandwidth(capsys: pytest.CaptureFixture[str]) -> None:
    view = BenchView()
    view.take(BenchBegun("7f3a", "gloo", 4, ("n1", "n2", "n3", "n4")))
    for wrong in (0, 3):
        view.take(AllReduceTimed(rank=0, size=1 << 20, seconds=(1e-3, 2e-3, 9.0), wrong=wrong))
    assert capsys.readouterr().err.splitlines()[1:] == [
        "all-reduce of 1.0 MiB: 2000.0 us, 0.786 GB/s of bus bandwidth",
        "all-reduce of 1.0 MiB: 2000.0 us, 0.786 GB/s of bus bandwidth, 3 wrong elements",
    ]


def test_a_slow_node_is_named_with_its_partners() -> None:
    verdict = PairVerdict(nodes=(SlowNode(2, 0.5, 1.2, (0, 1)),))
    found = BenchResult(("n1", "n2", "n3"), "gloo", 3, pair_rates={(0, 2): (1.2,)}, verdict=verdict)
    assert list(conclusions(found)) == ["slow node: n3 at 1.200 GB/s, 50% of the median, with n[1-2]"]
    assert as_json(found)["slow_nodes"] == [{"host": "n3", "share": 0.5, "gbps": 1.2}]


def test_normal_pairs_are_counted_and_nobody_is_named_without_a_verdict() -> None:
    normal = BenchResult(("n1", "n2"), "gloo", 2, pair_rates={(0, 1): (1.0,)}, verdict=PairVerdict())
    assert list(conclusions(normal)) == ["pairs: no slow node and no slow link among 1 measured pairs"]
    unclear = BenchResult(("n1", "n2"), "gloo", 2, verdict=PairVerdict(abstained="noise"))
    assert list(conclusions(unclear)) == ["pairs: no verdict: noise"]
