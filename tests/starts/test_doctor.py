"""`pylaunch doctor` names the first broken layer, with the host, and passes over what needs it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pylaunch.errors import ExitCode
from pylaunch.features.doctor.layers import StartLayer
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster

ORDER = [layer.value for layer in StartLayer]
ENDS_S = 300.0


@pytest.fixture
def cluster(directories: Callable[..., DirectoryCluster]) -> DirectoryCluster:
    return directories("n1", "n2")


def changed(cluster: DirectoryCluster, node: str, words: str) -> None:
    """Append `words` to the line of `node` in the inventory; later words win."""
    lines = cluster.inventory.read_text().splitlines()
    cluster.inventory.write_text(
        "".join(f"{line} {words}\n" if line.startswith(f"{node} ") else f"{line}\n" for line in lines)
    )


def diagnosed(cluster: DirectoryCluster, *words: str, code: int) -> tuple[dict[str, dict[str, Any]], str]:
    """Layers by name as `doctor --json` has them, and what it printed."""
    process = cluster.begin("doctor", "-i", str(cluster.inventory), "--json", *words)
    stdout, stderr = process.communicate(timeout=ENDS_S)
    assert process.returncode == code, stderr
    document = documented(stdout, "pylaunch doctor")
    assert [each["layer"] for each in document["layers"]] == ORDER
    return {each["layer"]: each for each in document["layers"]}, stderr


def only_broken(layers: dict[str, dict[str, Any]], layer: str) -> dict[str, Any]:
    """The broken layer, after which every other one is skipped."""
    assert [name for name, each in layers.items() if each["state"] == "broken"] == [layer]
    after = ORDER[ORDER.index(layer) + 1 :]
    assert {layers[name]["state"] for name in after} <= {"skipped"}
    return layers[layer]


def test_a_healthy_cluster_has_no_broken_layer(cluster: DirectoryCluster) -> None:
    layers, stderr = diagnosed(cluster, "--python", sys.executable, code=ExitCode.DONE)
    proven = {name for name, each in layers.items() if each["state"] == "ok"}
    assert {"inventory", "Python of the agent", "node root", "clocks", "agent", "barrier"} <= proven
    assert layers["login"]["state"] == "skipped"  # Nothing is claimed about SSH on this machine.
    assert "2 ranks met at rank 0" in layers["barrier"]["text"]
    assert layers["network between hosts"]["state"] == "ok"
    assert "ok       barrier" in stderr
    assert [outcome["status"] for outcome in cluster.outcomes().values()] == ["done"]


def test_an_inventory_that_cannot_be_read(cluster: DirectoryCluster) -> None:
    changed(cluster, "n2", "gpus=many")
    found = only_broken(diagnosed(cluster, code=ExitCode.USAGE)[0], "inventory")
    assert any("gpus" in line and "many" in line for line in found["evidence"])


@pytest.mark.parametrize(
    ("words", "layer", "reason"),
    [
        ("ansible_connection=ssh ansible_host=n2.invalid", "host names", "does not resolve"),
        ("ansible_connection=ssh ansible_port=9", "SSH port", "Connection refused"),
        ("pylaunch_agent_python=/nowhere/python3", "Python of the agent", "no Python at /nowhere/python3"),
    ],
)
def test_a_host_that_does_not_answer(cluster: DirectoryCluster, words: str, layer: str, reason: str) -> None:
    if layer == StartLayer.NAMES.value:  # A host with another address could not reach n1 at 127.0.0.1.
        changed(cluster, "n1", "fabric_address=10.255.0.1")
    changed(cluster, "n2", words)
    layers, _ = diagnosed(cluster, code=ExitCode.CLUSTER_NOT_READY)
    found = only_broken(layers, layer)
    assert found["hosts"] == ["n2"]
    assert reason in "\n".join((found["text"], *found["evidence"]))
    assert found["hints"] != []


def test_a_node_root_that_cannot_be_written(cluster: DirectoryCluster) -> None:
    changed(cluster, "n2", "pylaunch_node_root=/proc/pylaunch")
    found = only_broken(diagnosed(cluster, "--python", sys.executable, code=ExitCode.CLUSTER_NOT_READY)[0], "node root")
    assert found["hosts"] == ["n2"]


def test_an_interface_that_one_host_lacks(cluster: DirectoryCluster) -> None:
    changed(cluster, "n2", "interface=eth77")
    layers, _ = diagnosed(cluster, "--python", sys.executable, code=ExitCode.CLUSTER_NOT_READY)
    found = only_broken(layers, "network between hosts")
    assert found["hosts"] == ["n2"]
    assert found["text"].startswith("the inventory says interface=eth77, and there are ")
    assert found["hints"] == ["correct interface= of n2"]


def test_ranks_without_an_interpreter(cluster: DirectoryCluster) -> None:
    layers, _ = diagnosed(cluster, "--python", "/nowhere/python", code=ExitCode.CLUSTER_NOT_READY)
    found = only_broken(layers, "Python environment")
    assert found["hosts"] == ["n1", "n2"]
    assert "/nowhere/python" in found["text"]


def test_a_node_root_that_others_can_write_is_refused_by_the_agent(cluster: DirectoryCluster) -> None:
    (cluster.nodes["n2"].path / "root").chmod(0o777)
    layers, _ = diagnosed(cluster, "--python", sys.executable, code=ExitCode.CLUSTER_NOT_READY)
    found = only_broken(layers, "agent")
    assert found["hosts"] == ["n2"]


@pytest.mark.parametrize(
    ("case", "layer", "reason"),
    [
        ("exit 7", "barrier", "exited with code 7"),
        ("broken torch", "framework import", "cannot open libcudart"),
    ],
)
def test_ranks_that_fail(cluster: DirectoryCluster, tmp_path: Path, case: str, layer: str, reason: str) -> None:
    """An interpreter that fails as a rank of n2, and answers everything else."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "torch.py").write_text("raise OSError('cannot open libcudart.so.12')\n")
    fails = "exit 7" if case == "exit 7" else f"export PYTHONPATH=$PYTHONPATH:{modules}"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ "$RANK" != 1 ] || {{ {fails}; }}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    layers, _ = diagnosed(cluster, "--python", str(python), code=ExitCode.CLUSTER_NOT_READY)
    found = only_broken(layers, layer)
    assert found["hosts"] == ["n2"]
    assert reason in "\n".join((found["text"], *found["evidence"]))
    assert found["hints"] != []
