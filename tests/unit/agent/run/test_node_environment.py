from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pylaunch.agent.run.node_environment import NodeEnvironmentError, completed
from tests.unit.agent.wire.test_messages import TASK


def test_a_run_has_the_variables_of_its_node_below_its_own(tmp_path: Path) -> None:
    file = tmp_path / "environment.json"
    file.write_text('{"variables": {"NCCL_DEBUG": "WARN", "GLOO_SOCKET_IFNAME": "eth7"}}')
    task = dataclasses.replace(TASK, env={"NCCL_DEBUG": "INFO"}, env_file=str(file))
    assert completed(task).env == {"NCCL_DEBUG": "INFO", "GLOO_SOCKET_IFNAME": "eth7"}


def test_a_node_that_was_not_provisioned_adds_nothing(tmp_path: Path) -> None:
    task = dataclasses.replace(TASK, env_file=str(tmp_path / "none"))
    assert completed(task) is task


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"variables": {"A": 1}}', '{"variables": ["A"]}', '{"variables": {"A=": ""}}']
)
def test_a_file_unlike_one_is_a_reason_to_refuse(tmp_path: Path, text: str) -> None:
    file = tmp_path / "environment.json"
    file.write_text(text)
    with pytest.raises(NodeEnvironmentError) as refused:
        completed(dataclasses.replace(TASK, env_file=str(file)))
    assert refused.value.reason.code == "node-environment"
    assert str(file) in refused.value.reason.message
