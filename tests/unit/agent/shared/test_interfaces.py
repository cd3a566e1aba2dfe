"""Network detection of a host, on small trees like /sys/class/infiniband."""

import json
from pathlib import Path

import pytest

from pylaunch.agent.shared.sockets import interfaces
from pylaunch.agent.shared.sockets.interfaces import UndecidedError, _adapters, _fastest, _profile, wanted

ACTIVE, DOWN = "4: ACTIVE", "1: DOWN"


def tree(root: Path, *ports: tuple[str, str, str, str]) -> str:
    """Write a tree of ports, each with adapter and port, state, link layer and rate, as the kernel does."""
    for port, state, layer, rate in ports:
        hca, number = port.split(":")
        directory = root / hca / "ports" / number
        directory.mkdir(parents=True)
        for name, text in (("state", state), ("link_layer", layer), ("rate", rate)):
            (directory / name).write_text(text + "\n")
    return str(root)


DGX = (
    ("mlx5_0:1", ACTIVE, "InfiniBand", "400 Gb/sec (4X NDR)"),
    ("mlx5_1:1", ACTIVE, "InfiniBand", "400 Gb/sec (4X NDR)"),
    ("mlx5_2:1", DOWN, "InfiniBand", "10 Gb/sec (4X SDR)"),
    ("mlx5_3:1", ACTIVE, "Ethernet", "100 Gb/sec (4X EDR)"),
    ("mlx5_4:1", ACTIVE, "InfiniBand", "200 Gb/sec (4X HDR)"),
)


def test_active_infiniband_is_preferred_with_its_fastest_ports(tmp_path: Path) -> None:
    adapters = _adapters(tree(tmp_path, *DGX))
    assert _profile("auto", "ib0", adapters) == "infiniband"
    assert _fastest("infiniband", adapters) == ["mlx5_0:1", "mlx5_1:1"]
    with pytest.raises(UndecidedError, match="no InfiniBand port is active"):
        _profile("infiniband", "eth0", [])


def test_ethernet_ports_of_rdma_adapters_are_roce(tmp_path: Path) -> None:
    adapters = _adapters(tree(tmp_path, ("mlx5_0:1", ACTIVE, "Ethernet", "200 Gb/sec (4X HDR)")))
    assert _profile("auto", "eth0", adapters) == "roce"
    assert _fastest("roce", adapters) == ["mlx5_0:1"]


def question(**changes: object) -> dict[str, object]:
    defaults = {"peers": ["127.0.0.1"], "interface": "", "profile": "auto", "hcas": [], "variables": {}}
    return {**defaults, **changes}


def test_members_on_one_machine_use_loopback() -> None:
    answer = wanted(question())
    assert (answer["profile"], answer["interface"]) == ("loopback", "lo")
    assert answer["variables"]["NCCL_SOCKET_IFNAME"] == "=lo"
    assert answer["variables"]["GLOO_SOCKET_IFNAME"] == "lo"


def test_configured_variables_override_and_only_those_of_nccl_are_in_its_file() -> None:
    answer = wanted(question(variables={"NCCL_DEBUG": "VERSION", "JAX_ENABLE_X64": "1"}))
    assert answer["files"][interfaces.NCCL_CONF].splitlines()[1:] == ["NCCL_DEBUG=VERSION", "NCCL_SOCKET_IFNAME==lo"]
    environment = json.loads(answer["files"][interfaces.NODE_ENVIRONMENT])["variables"]
    assert environment["JAX_ENABLE_X64"] == "1"
    assert environment["NCCL_DEBUG"] == "VERSION"


def test_a_missing_interface_is_refused_and_the_existing_ones_are_listed() -> None:
    with pytest.raises(UndecidedError, match=r"interface=ib7, and there are .*lo"):
        wanted(question(interface="ib7"))


def test_a_file_without_our_mark_is_foreign(tmp_path: Path) -> None:
    ours, foreign = tmp_path / "ours", tmp_path / "foreign"
    ours.write_text(f"# {interfaces.MARK}.\n")
    foreign.write_text("NCCL_DEBUG=INFO\n")
    found = [interfaces.is_foreign(str(path)) for path in (ours, foreign, tmp_path / "none")]
    assert found == [False, True, False]
