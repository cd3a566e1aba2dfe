"""The job of `pylaunch check --trial` with real torch: a barrier over plain sockets, then an all-reduce of gloo."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from pylaunch.errors import ExitCode
from pylaunch.runtime import communication_test as trial
from tests.ports import free_port
from tests.starts.cluster import DirectoryCluster, ended, made_of_directories

ENDS_S = 240.0
ROOT = Path(__file__).parents[2]


def test_two_ranks_meet_and_sum(torch_python: Path) -> None:
    place = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        subprocess.Popen(
            [str(torch_python), "-m", "pylaunch.runtime.communication_test"],
            env={**os.environ, "PYTHONPATH": str(ROOT), **place, "RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in "01"
    ]  # fmt: skip
    for rank in ranks:
        out, err = rank.communicate(timeout=ENDS_S)
        assert rank.returncode == 0, err
        stages = [line.removeprefix(f"{trial.STAGE} ").split(" ")[0] for line in out.splitlines()]
        assert stages == [trial.BARRIER, trial.IMPORT, trial.ALL_REDUCE]
        assert out.splitlines()[-1].endswith(" torch 3")


def walked(cluster: DirectoryCluster, python: Path, code: int) -> dict[str, dict[str, Any]]:
    """Layers of `check --trial` by name, for ranks with this interpreter."""
    words = ("check", "-i", str(cluster.inventory), "--python", str(python), "--only", "reach", "--trial", "--json")
    found = ended(cluster.begin(*words), ENDS_S, code=code)
    return {each["layer"]: each for each in json.loads(found.stdout)["trial"]["layers"]}


def test_the_trial_proves_the_last_layers(torch_python: Path, tmp_path: Path) -> None:
    layers = walked(made_of_directories(tmp_path, ("n1", "n2")), torch_python, ExitCode.DONE)
    assert layers["framework import"]["text"].startswith("torch 2.")
    assert (layers["all-reduce"]["state"], layers["all-reduce"]["text"]) == ("ok", "correct sum on 2 ranks")


def test_the_trial_stops_at_an_all_reduce_that_fails_on_one_host(torch_python: Path, tmp_path: Path) -> None:
    """An interpreter whose gloo gets another interface as a rank of n2, and which answers everything else."""
    python = tmp_path / "python"
    other = "export GLOO_SOCKET_IFNAME=ib77"
    python.write_text(f'#!/bin/sh\n[ "$RANK" != 1 ] || {other}\nexec {torch_python} "$@"\n')
    python.chmod(0o755)
    layers = walked(made_of_directories(tmp_path, ("n1", "n2")), python, ExitCode.CLUSTER_NOT_READY)
    found = layers["all-reduce"]
    assert (found["state"], found["hosts"]) == ("broken", ["n2"])
    assert "ib77" in "\n".join((found["text"], *found["evidence"]))
    assert found["hints"] != []
    assert {each["state"] for name, each in layers.items() if name != "all-reduce"} <= {"ok", "skipped"}
