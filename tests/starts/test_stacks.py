"""`pylaunch stacks`, and what a failed run keeps of the stacks of its ranks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from pylaunch.errors import ExitCode
from tests.json_pages import has_the_forms, undescribed
from tests.starts.cluster import DirectoryCluster, appears, ended
from tests.waiting import wait_until

SOURCE = """
import os, sys, time
def load(): time.sleep(600)
def train(): load()
def evaluate(): load()
open(os.environ["PYLAUNCH_RANK"] + ".up", "w").close()
if os.environ["PYLAUNCH_RANK"] == "3":
    evaluate()
if os.environ["PYLAUNCH_RANK"] == "2":
    while not os.path.exists("fail"): time.sleep(0.02)
    sys.exit("no data")
train()
"""


def started(cluster: DirectoryCluster, tmp_path: Path) -> subprocess.Popen[str]:
    """A run of four ranks on two nodes, all of which are in their functions."""
    (tmp_path / "train.py").write_text(SOURCE)
    run = cluster.begin(
        "start", "-i", str(cluster.inventory), "--framework", "command", "--workdir", str(tmp_path),
        "--nproc-per-node", "2", "--", "/usr/bin/python3", "train.py",
    )  # fmt: skip
    for rank in range(4):
        appears(tmp_path / f"{rank}.up")
    return run


def test_ranks_with_the_same_stack_are_shown_once_and_a_failed_run_keeps_them(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    run = started(cluster, tmp_path)

    (name,) = cluster.outcomes()

    def in_place() -> str:
        shown = cluster.run("stacks", name)
        assert shown.returncode == ExitCode.DONE, shown.stderr
        text = shown.stdout
        return text if "train (train.py:4)" in text and "evaluate (train.py:5)" in text else ""

    text = wait_until(in_place, "all ranks in their functions")
    assert "ranks 0-1 on n1: sleeping\n  load (train.py:3) <- train (train.py:4) <- <module> (train.py:12)\n" in text
    assert "rank 3 on n2: sleeping\n  load (train.py:3) <- evaluate (train.py:5) <- <module> (train.py:8)\n" in text

    shown = cluster.run("stacks", name, "--json", "--rank", "3")
    document = json.loads(shown.stdout)
    has_the_forms(document)
    assert undescribed(document, "pylaunch stacks") == set()
    (rank,) = document["ranks"]
    assert (rank["rank"], rank["on"], rank["source"], rank["note"]) == (3, "n2", "helper", None)
    assert document["recorded"] is False

    (tmp_path / "fail").touch()
    assert ended(run).returncode == ExitCode.JOB_FAILED
    recorded = cluster.run("stacks", name)
    assert recorded.stdout.startswith(f"run {name}: 3 ranks before they were stopped, 2 stacks\n")
    assert "rank 3 on n2: sleeping\n  load (train.py:3) <- evaluate (train.py:5)" in recorded.stdout


def test_a_run_that_has_no_live_rank_has_no_stacks(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1")
    assert ended(cluster.start("--", "true")).returncode == ExitCode.DONE
    (name,) = cluster.outcomes()
    shown = cluster.run("stacks", name)
    assert (shown.returncode, shown.stdout) == (ExitCode.DONE, f"no rank of run {name} is recorded\n")
