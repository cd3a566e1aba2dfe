"""What a host works out about its network, on small trees like /sys/class/infiniband."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pylaunch.agent.shared import interfaces
from pylaunch.agent.shared.interfaces import UndecidedError, _adapters, _fastest, _profile, wanted
from pylaunch.model.plan import NODE_ENVIRONMENT

ACTIVE, DOWN = "4: ACTIVE", "1: DOWN"


def tree(root: Path, *ports: tuple[str, str, str, str]) -> str:
    """Adapter and port, state, link layer, rate, as the kernel shows them."""
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


def test_active_infiniband_is_preferred_and_its_fastest_ports_are_taken(tmp_path: Path) -> None:
    adapters = _adapters(tree(tmp_path, *DGX))
    assert _profile("auto", "ib0", adapters) == "infiniband"
    assert _fastest("infiniband", adapters) == ["mlx5_0:1", "mlx5_1:1"]


def test_ethernet_ports_of_rdma_adapters_are_roce(tmp_path: Path) -> None:
    adapters = _adapters(tree(tmp_path, ("mlx5_0:1", ACTIVE, "Ethernet", "200 Gb/sec (4X HDR)")))
    assert _profile("auto", "eth0", adapters) == "roce"
    assert _fastest("roce", adapters) == ["mlx5_0:1"]


def test_ports_that_are_down_are_no_fabric(tmp_path: Path) -> None:
    adapters = _adapters(tree(tmp_path, ("mlx5_0:1", DOWN, "InfiniBand", "10 Gb/sec (4X SDR)")))
    assert _profile("auto", "eth0", adapters) == "ethernet"


def test_without_adapters_there_is_no_tree_and_it_is_ethernet(tmp_path: Path) -> None:
    assert _profile("auto", "eth0", _adapters(str(tmp_path / "none"))) == "ethernet"


def test_a_profile_that_the_host_cannot_have_is_refused() -> None:
    with pytest.raises(UndecidedError, match="no InfiniBand port is active"):
        _profile("infiniband", "eth0", [])


def question(**changes: object) -> dict[str, object]:
    asked = {"peers": ["127.0.0.1"], "interface": "", "profile": "auto", "hcas": [], "variables": {}}
    return {**asked, **changes}


def test_members_that_are_all_this_machine_talk_over_loopback() -> None:
    answer = wanted(question())
    assert (answer["profile"], answer["interface"]) == ("loopback", "lo")
    assert answer["variables"]["NCCL_SOCKET_IFNAME"] == "=lo"
    assert answer["variables"]["GLOO_SOCKET_IFNAME"] == "lo"


def test_own_variables_win_and_only_nccls_go_to_nccls_file() -> None:
    answer = wanted(question(variables={"NCCL_DEBUG": "VERSION", "JAX_ENABLE_X64": "1"}))
    assert answer["files"][interfaces.NCCL_CONF].splitlines()[1:] == ["NCCL_DEBUG=VERSION", "NCCL_SOCKET_IFNAME==lo"]
    environment = json.loads(answer["files"][interfaces.NODE_ENVIRONMENT])["variables"]
    assert environment["JAX_ENABLE_X64"] == "1"
    assert environment["NCCL_DEBUG"] == "VERSION"


def test_an_interface_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(UndecidedError, match=r"interface=ib7, and there are .*lo"):
        wanted(question(interface="ib7"))


def test_a_file_without_our_mark_is_somebody_elses(tmp_path: Path) -> None:
    ours, foreign = tmp_path / "ours", tmp_path / "foreign"
    ours.write_text(f"# {interfaces.MARK}.\n")
    foreign.write_text("NCCL_DEBUG=INFO\n")
    found = [interfaces.is_foreign(str(path)) for path in (ours, foreign, tmp_path / "none")]
    assert found == [False, True, False]


def test_controller_and_host_mean_the_same_file() -> None:
    assert interfaces.NODE_ENVIRONMENT == NODE_ENVIRONMENT


def test_the_role_runs_the_very_code_that_the_probe_runs() -> None:
    role = Path(__file__).parents[4] / "roles/nccl_env/module_utils/pylaunch_interfaces_library.py"
    assert role.read_text() == Path(interfaces.__file__).read_text()
