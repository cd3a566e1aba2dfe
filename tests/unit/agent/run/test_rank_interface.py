"""Port and network interface that a node chooses."""

import json
import socket
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.run import environment
from pylaunch.agent.shared.sockets import interfaces, ports


def kernel(root: Path, *, ephemeral: str = "32768\t60999", reserved: str = "") -> str:
    (root / "ip_local_port_range").write_text(ephemeral + "\n")
    (root / "ip_local_reserved_ports").write_text(reserved + "\n")
    return f"{root}/"


def firewall(root: Path, *member_ports: object) -> str:
    path = root / "wanted.json"
    path.write_text(json.dumps({"members": [], "member_ports": list(member_ports), "ssh_ports": [22]}))
    return str(path)


def test_the_port_everybody_knows_comes_first(tmp_path: Path) -> None:
    found = ports.candidates(str(tmp_path / "none"), kernel(tmp_path))
    assert found[:2] == [29500, 29501]
    assert ports.spans(found) == "29400-29599"


def test_reserved_ports_are_left_alone(tmp_path: Path) -> None:
    found = ports.candidates(str(tmp_path / "none"), kernel(tmp_path, reserved="29500-29510,29512"))
    assert found[:2] == [29511, 29513]


def test_ports_that_any_connection_may_have_come_last(tmp_path: Path) -> None:
    found = ports.candidates(str(tmp_path / "none"), kernel(tmp_path, ephemeral="29500 60999"))
    assert found[0] == 29400
    assert found[-100] == 29500


def test_only_ports_that_the_firewall_opens_are_chosen(tmp_path: Path) -> None:
    opened = firewall(tmp_path, "29550-29999", "ephemeral")
    assert ports.spans(ports.candidates(opened, kernel(tmp_path))) == "29550-29599"
    opened = firewall(tmp_path, "20000-20003", 20010, "ephemeral")
    assert ports.candidates(opened, kernel(tmp_path)) == [20000, 20001, 20002, 20003, 20010]


def asked(**env: str) -> protocol.NodeTask:
    return protocol.NodeTask(
        run="r1", host="n1", node_rank=0, workdir="/", ranks=[], env=env, launcher=[], hold_port=None, devices=[],
        needs=[], grace_s=1.0, world_size=2, machines=2, peers={"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"},
    )  # fmt: skip


@pytest.fixture
def routes(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Peer → own address towards it; the interfaces of those addresses are eth0 and eth1."""
    found = {"10.0.0.2": "10.0.0.1", "10.0.0.3": "10.0.0.1"}
    monkeypatch.setattr(interfaces, "own_address", lambda peer: (int(socket.AF_INET), found[peer]))
    monkeypatch.setattr(interfaces, "address_owners", lambda: {"10.0.0.1": "eth0", "192.168.0.1": "eth1"})
    return found


def test_the_interface_to_all_peers_is_set_for_every_library(routes: dict[str, str]) -> None:
    env = environment.by_route(asked(), {})
    assert env == {"NCCL_SOCKET_IFNAME": "=eth0", "GLOO_SOCKET_IFNAME": "eth0", "TP_SOCKET_IFNAME": "eth0"}


def test_peers_over_several_interfaces_leave_the_choice_to_the_frameworks(routes: dict[str, str]) -> None:
    routes["10.0.0.3"] = "192.168.0.1"
    assert environment.by_route(asked(), {}) == {}
