"""The job of `pylaunch doctor` with real torch: a barrier over plain sockets, then an all-reduce of gloo."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pylaunch.runtime import communication_test as trial
from tests.ports import free_port

ENDS_S = 120.0
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
