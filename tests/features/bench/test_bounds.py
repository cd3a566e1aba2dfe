"""The tightest bound of those that hosts report is named; a rate needs both ends; cold results are not judged."""

from dataclasses import replace

import pytest

from pylaunch.features.bench.judgement.bounds import (
    Conditions,
    HostSpeeds,
    Wire,
    goodput,
    judged_bandwidth,
    tightest,
)
from pylaunch.features.bench.judgement.measurements import PairTimed
from pylaunch.features.bench.judgement.pairs import pair_rates
from pylaunch.features.bench.judgement.sweep import Operation
from pylaunch.features.bench.run.measure import host_speeds
from tests.unit.checks.devices import PORT, survey

TEN = HostSpeeds((Wire("eth0", 10_000, 1500),))
ONE = HostSpeeds((Wire("eth0", 1_000, 1500),))
LARGE = 64 << 20
PAIR = Conditions("gloo", 2, 1, {"n1": TEN, "n2": TEN})


@pytest.mark.parametrize(("mbps", "mtu", "gbps"), [(10_000, 1500, 9.41), (25_000, 1500, 23.5), (100_000, 9000, 99.0)])
def test_payload_of_tcp_on_ethernet(mbps: int, mtu: int, gbps: float) -> None:
    assert goodput(mbps, mtu) * 8 == pytest.approx(gbps, rel=2e-3)


def test_the_slowest_host_sets_the_bound_and_is_named() -> None:
    found = tightest({"n1": TEN, "n2": ONE}, Operation.ALL_REDUCE, 2, 1)
    assert found is not None
    assert found.text == "network of n2: eth0 with 1 Gb/s, MTU 1500"
    assert found.rate == pytest.approx(0.1177, rel=1e-3)


def test_rails_add_up_and_a_narrow_pcie_slot_is_tighter() -> None:
    rails = tuple(Wire(f"ib{index}", 200_000, 9000) for index in range(2))
    wide = {"n1": HostSpeeds(rails, ((5, 16),)), "n2": HostSpeeds(rails, ((5, 16),))}
    assert tightest(wide, Operation.ALL_REDUCE, 2, 1).rate == pytest.approx(49.5, rel=1e-2)  # type: ignore[union-attr]
    narrow = {**wide, "n2": HostSpeeds(rails, ((5, 16), (3, 8)))}
    assert tightest(narrow, Operation.ALL_REDUCE, 2, 1).text == "PCIe of n2: generation 3, x8"  # type: ignore[union-attr]


def test_one_node_is_bounded_by_nvlink_and_not_by_its_network() -> None:
    node = {"n1": HostSpeeds((Wire("eth0", 1_000, 1500),), ((5, 16),), nvlink=450.0)}
    found = tightest(node, Operation.ALL_REDUCE, 8, 8)
    assert found is not None
    assert (found.rate, found.text) == (450.0, "NVLink of n1")


@pytest.mark.parametrize(
    ("size", "rate", "conditions", "reason"),
    [
        (1 << 20, 1.0, PAIR, "payload below 16 MiB"),
        (64 << 20, 1.0, replace(PAIR, backend="nccl"), "payload below 512 MiB"),
        (LARGE, 1.0, replace(PAIR, hosts={}), "no host reports"),
        (LARGE, 3.0, PAIR, "above the reported speed"),
    ],
)
def test_no_judgement(size: int, rate: float, conditions: Conditions, reason: str) -> None:
    found = judged_bandwidth(Operation.ALL_REDUCE, size, rate, conditions)
    assert isinstance(found, str)
    assert reason in found


MB = 1_000_000


def timed(rank: int, peer: int, seconds: float, number: int = 0) -> PairTimed:
    return PairTimed(rank=rank, round=number, peer=peer, size=MB, seconds=(seconds,))


@pytest.mark.parametrize(
    "lines",
    [
        [timed(0, 1, 0.001)],
        [timed(0, 1, 0.001), timed(0, 1, 0.001)],
        [timed(0, 1, 0.001), timed(1, 0, 0.001), timed(0, 1, 9.0)],
        [timed(0, 2, 0.001), timed(2, 0, 0.001)],
        [timed(0, 1, 0.001, number=1), timed(1, 0, 0.001, number=1)],
    ],
    ids=["one end", "one end twice", "a second claim", "another pair", "another round"],
)
def test_what_was_not_planned_or_is_not_confirmed_by_the_other_end_is_dropped(lines: list[PairTimed]) -> None:
    assert pair_rates(lines, [[(0, 1)], []], 1) == []


def test_the_slowest_pair_of_ranks_counts_for_the_node() -> None:
    lines = [timed(0, 2, 0.001), timed(2, 0, 0.001), timed(1, 3, 0.004), timed(3, 1, 0.004)]
    (found,) = pair_rates(lines, [[(0, 1)]], 2)
    assert found.rate == pytest.approx(2 * 0.25)
    assert pair_rates(lines[:2], [[(0, 1)]], 2) == []
    assert pair_rates([timed(0, 3, 0.001), timed(3, 0, 0.001)], [[(0, 1)]], 2) == []


RAIL = Wire("mlx5_0 port 1", 400_000, 0, is_fabric=True)


def test_active_ports_are_rails_and_nvlink_is_that_of_one_device() -> None:
    down = {**PORT, "adapter": "mlx5_1", "state": "DOWN"}
    found = host_speeds(survey(n2={"infiniband.ports": [PORT, down]}), uses_infiniband=True)
    assert found["n2"].wires == (RAIL,)
    assert found["n1"].nvlink == 100.0
    bound = tightest(found, Operation.ALL_REDUCE, 6, 2)
    assert bound is not None
    assert bound.rate == 50.0
    assert bound.text == "network of n1: mlx5_0 port 1 with 400 Gb/s"
