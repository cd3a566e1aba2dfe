"""Bounds come from what hosts report: rails of NCCL, else the interface; PCIe and NVLink of devices in use."""

from __future__ import annotations

from pylaunch.features.bench.host_speeds import host_speeds
from pylaunch.features.bench.judgement.bounds import HostSpeeds, Wire, tightest
from pylaunch.features.bench.judgement.operations import Operation
from tests.unit.checks.devices import PORT, card, smi, survey

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


def test_pcie_counts_of_devices_in_use_without_nvlink() -> None:
    cards = [card(0, pcie_generation_max=4, pcie_width=8), card(1, pcie_generation_max=4, pcie_width=16)]
    other = card(7, pcie_generation_max=1, pcie_width=1)
    none = {
        "0": {"up": [], "down": [0], "rate": 0.0, "errors": {}},
        "x": {"up": [], "down": [], "rate": 9.0, "errors": {}},
    }
    found = host_speeds(survey(n1={**smi(*cards, other), "gpu.nvlink": none}), uses_infiniband=True)
    assert found["n1"] == HostSpeeds((RAIL,), ((4, 8), (4, 16)), None)
    bound = tightest(found, Operation.ALL_REDUCE, 6, 2)
    assert bound is not None
    assert bound.text == "PCIe of n1: generation 4, x8"


def test_without_infiniband_the_ports_are_no_rails() -> None:
    assert host_speeds(survey(), uses_infiniband=False)["n1"].wires == ()
