"""`pylaunch bench` refuses what cannot work in one line, and names a broken stage."""

import sys
from collections.abc import Callable

import pytest

from pylaunch.errors import ExitCode
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--backend", "nccl"), "error: --backend nccl: the inventory has no devices for n1"),
        ((), "error: bench measures between hosts, and n1 is one"),
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
