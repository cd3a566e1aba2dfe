"""The tightest bound is named; small, cold and impossible results are not judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pylaunch.features.bench.judgement.bounds import Conditions, HostSpeeds, Judgement, Wire, goodput, judged, tightest
from pylaunch.features.bench.judgement.operations import Operation

TEN = HostSpeeds((Wire("eth0", 10_000, 1500),))
ONE = HostSpeeds((Wire("eth0", 1_000, 1500),))
LARGE = 64 << 20
PAIR = Conditions("gloo", 2, 1, 5, {"n1": TEN, "n2": TEN})


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


def test_ranks_of_a_node_share_its_wire_in_an_all_to_all() -> None:
    hosts = {"n1": TEN, "n2": TEN}
    ring = tightest(hosts, Operation.ALL_REDUCE, 16, 8)
    everybody = tightest(hosts, Operation.ALL_TO_ALL, 16, 8)
    assert ring is not None
    assert everybody is not None
    assert everybody.rate == pytest.approx(ring.rate * 15 / 64)


def test_one_node_is_bounded_by_nvlink_and_not_by_its_network() -> None:
    node = {"n1": HostSpeeds((Wire("eth0", 1_000, 1500),), ((5, 16),), nvlink=450.0)}
    found = tightest(node, Operation.ALL_REDUCE, 8, 8)
    assert found is not None
    assert (found.rate, found.text) == (450.0, "NVLink of n1")


def test_a_result_is_a_share_of_the_bound() -> None:
    found = judged(Operation.ALL_REDUCE, LARGE, 1.0, PAIR)
    assert isinstance(found, Judgement)
    assert found.share == pytest.approx(0.85, abs=0.01)


@pytest.mark.parametrize(
    ("size", "rate", "conditions", "reason"),
    [
        (1 << 20, 1.0, PAIR, "payload below 16 MiB"),
        (64 << 20, 1.0, replace(PAIR, backend="nccl"), "payload below 512 MiB"),
        (LARGE, 1.0, replace(PAIR, warm_up=1), "fewer than 5 iterations of warm-up"),
        (LARGE, 1.0, replace(PAIR, hosts={}), "no host reports"),
        (LARGE, 3.0, PAIR, "above the reported speed"),
    ],
)
def test_no_judgement(size: int, rate: float, conditions: Conditions, reason: str) -> None:
    found = judged(Operation.ALL_REDUCE, size, rate, conditions)
    assert isinstance(found, str)
    assert reason in found
