import dataclasses
import socket
from pathlib import Path

import pytest

from pylaunch.agent.run import environment
from pylaunch.agent.run.environment import RefusedError, completed, user
from pylaunch.agent.shared.sockets import interfaces
from tests.unit.protocol.test_messages import TASK


def test_a_run_has_the_variables_of_its_node_below_its_own(tmp_path: Path) -> None:
    file = tmp_path / "environment.json"
    file.write_text('{"variables": {"NCCL_DEBUG": "WARN", "GLOO_SOCKET_IFNAME": "eth7"}}')
    task = dataclasses.replace(TASK, env={"NCCL_DEBUG": "INFO"}, env_file=str(file))
    assert completed(task).env == {**user(), "NCCL_DEBUG": "INFO", "GLOO_SOCKET_IFNAME": "eth7"}


def test_the_interface_by_route_is_below_the_file_of_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "interface_to", lambda others: ("eth0", int(socket.AF_INET)))
    peers = {"n1": "10.0.0.1", "n2": "10.0.0.2"}
    file = tmp_path / "environment.json"
    file.write_text('{"variables": {"GLOO_SOCKET_IFNAME": "eth7"}}')
    task = dataclasses.replace(
        TASK,
        env={"TP_SOCKET_IFNAME": "ib0"},
        env_file=str(file),
        machines=2,
        peers=peers,
    )
    env = completed(task).env
    assert [env[name] for name in environment.INTERFACES] == ["=eth0", "eth7", "ib0"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"variables": {"A": 1}}', '{"variables": ["A"]}', '{"variables": {"A=": ""}}']
)
def test_a_file_unlike_one_is_a_reason_to_refuse(tmp_path: Path, text: str) -> None:
    file = tmp_path / "environment.json"
    file.write_text(text)
    with pytest.raises(RefusedError) as refused:
        completed(dataclasses.replace(TASK, env_file=str(file)))
    assert refused.value.reasons[0].code == "node-environment"
    assert str(file) in refused.value.reasons[0].message
