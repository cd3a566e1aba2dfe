"""`pylaunch check --trial` stops at the first broken layer, and ends with ranks that meet."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pylaunch.errors import ExitCode
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster

ENDS_S = 300.0
DECIDING = "reach,storage,time,network,python_env"


@pytest.fixture
def cluster(directories: Callable[..., DirectoryCluster]) -> DirectoryCluster:
    return directories("n1", "n2")


def changed(cluster: DirectoryCluster, node: str, words: str) -> None:
    """Append `words` to the line of `node` in the inventory; later words win."""
    lines = cluster.inventory.read_text().splitlines()
    cluster.inventory.write_text(
        "".join(f"{line} {words}\n" if line.startswith(f"{node} ") else f"{line}\n" for line in lines)
    )


def tried(cluster: DirectoryCluster, *words: str, code: int) -> dict[str, Any]:
    """The document of `check --trial`."""
    called = ("check", "-i", str(cluster.inventory), "--trial", "--only", DECIDING, "--json", *words)
    process = cluster.begin(*called)
    stdout, stderr = process.communicate(timeout=ENDS_S)
    assert process.returncode == code, stderr
    return documented(stdout, "pylaunch check")


def only_broken(found: dict[str, Any], layer: str) -> dict[str, Any]:
    """The broken layer of the trial, which is its last one."""
    *before, last = found["trial"]["layers"]
    assert {each["state"] for each in before} <= {"ok"}
    assert (last["layer"], last["state"]) == (layer, "broken")
    broken: dict[str, Any] = last
    return broken


def test_a_healthy_cluster_meets_and_has_no_broken_layer(cluster: DirectoryCluster) -> None:
    words = ("check", "-i", str(cluster.inventory), "--trial", "--only", DECIDING, "--python", sys.executable)
    shown = cluster.run(*words, code=ExitCode.DONE).stderr.splitlines()
    assert shown[:1] == ["ok       reach"]
    assert "ok       agent: started on every host, prepared and released a job" in shown
    assert "ok       barrier: 2 ranks met at rank 0" in shown
    assert [outcome["status"] for outcome in cluster.outcomes().values()] == ["done"]


def test_a_check_that_fails_ends_the_walk_before_any_rank(cluster: DirectoryCluster) -> None:
    changed(cluster, "n2", "interface=eth77")
    words = ("check", "-i", str(cluster.inventory), "--trial", "--only", DECIDING, "--python", "/nowhere/python")
    shown = cluster.run(*words, code=ExitCode.CLUSTER_NOT_READY)
    assert shown.stderr.splitlines()[-2].startswith("broken   network")
    assert "the inventory says interface=eth77" in shown.stdout
    assert "/nowhere/python" not in shown.stdout, "the layer after it is not shown"
    assert "pylaunch check without --trial" in shown.stderr
    assert tried(cluster, code=ExitCode.CLUSTER_NOT_READY)["trial"] is None
    assert cluster.outcomes() == {}


def test_a_node_root_that_others_can_write_is_refused_by_the_agent(cluster: DirectoryCluster) -> None:
    (cluster.nodes["n2"].path / "root").chmod(0o777)
    found = tried(cluster, "--python", sys.executable, code=ExitCode.CLUSTER_NOT_READY)
    assert only_broken(found, "agent")["hosts"] == ["n2"]


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
    found = only_broken(tried(cluster, "--python", str(python), code=ExitCode.CLUSTER_NOT_READY), layer)
    assert found["hosts"] == ["n2"]
    assert reason in "\n".join((found["text"], *found["evidence"]))
    assert found["hints"] != []
