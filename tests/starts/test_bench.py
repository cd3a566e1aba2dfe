"""`pylaunch bench` refuses what cannot work in one line, and names a broken stage."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from pylaunch.errors import ExitCode
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--backend", "nccl"), "error: --backend nccl: the inventory has no devices for n1\n\nhint: --backend gloo"),
        ((), "error: bench measures between hosts, and n1 is one\n\nhint: name two or more: -H gpu01,gpu02"),
    ],
)
def test_bad_input_is_one_clear_line(
    directories: Callable[..., DirectoryCluster], words: tuple[str, ...], error: str
) -> None:
    cluster = directories("n1")
    ended = cluster.run("bench", "-i", str(cluster.inventory), *words, code=ExitCode.USAGE)
    assert error in ended.stderr
    assert cluster.outcomes() == {}


def test_ranks_without_torch_break_the_stage_after_the_barrier(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    ended = cluster.run("bench", "-i", str(cluster.inventory), "--python", sys.executable, "--json")
    assert ended.returncode == ExitCode.CLUSTER_NOT_READY
    document = documented(ended.stdout, "pylaunch bench")
    assert [(each["stage"], each["state"]) for each in document["stages"]] == [
        ("barrier", "ok"),
        ("correctness", "broken"),
    ]
    broken = document["stages"][-1]
    assert "No module named 'torch'" in "\n".join((broken["text"], *broken["evidence"]))
    assert document["runs"] == list(cluster.outcomes())


def test_a_stage_that_does_not_end_in_time_ends_its_rank_with_its_name_and_stacks() -> None:
    script = """
import threading
from datetime import timedelta
from pylaunch.features.bench.ranks.bench_rank import time_limited
with time_limited("quick", timedelta(seconds=60)):
    pass
with time_limited("stuck", timedelta(seconds=0.1)):
    threading.Event().wait(60)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.endswith("StageTimeoutError: stuck did not end within 0.1 s\n")
    assert "in wait" in ended.stderr


def test_a_stage_that_keeps_the_interpreter_from_running_ends_its_rank_too() -> None:
    script = """
import ctypes
from datetime import timedelta
from pylaunch.features.bench.ranks.bench_rank import time_limited
with time_limited("import", timedelta(seconds=0.1)):
    ctypes.PyDLL(None).sleep(60)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert "Timeout" in ended.stderr
