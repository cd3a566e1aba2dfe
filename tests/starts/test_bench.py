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
        (("--max-size", "0"), "error: --max-size 0: expected 4 bytes (one element) … 64GiB"),
        (("--iterations", "0"), "error: --iterations 0: expected 1 … 100000"),
        (("--backend", "nccl"), "error: --backend nccl: the inventory has no devices for n1"),
        (("--backend", "gossip"), "'gossip' is not one of 'auto', 'nccl', 'gloo', 'mpi'"),
        (("--nproc-per-node", "0"), "error: --nproc-per-node 0: expected at least 1"),
        (("--nproc-per-node", "70000"), "error: bench measures at most 65024 ranks, and these would be 70000"),
        ((), "error: bench needs at least two ranks, and n1 alone has one"),
        (("--stage", "pairs"), "error: --stage pairs: one host has no network to others"),
        (("--stage", "read"), "error: --stage read: no file to read"),
        (("--csv", "nodir/x.csv"), "error: --csv nodir/x.csv: cannot be written: no such directory: nodir"),
        (("--beside", "no-ib"), "error: --beside no-ib: only NCCL uses InfiniBand"),
        (
            ("--stage", "pairs", "--backend", "jax"),
            "error: --stage pairs --backend jax: a collective of JAX has all ranks",
        ),
    ],
)
def test_bad_input_is_one_clear_line(
    directories: Callable[..., DirectoryCluster], words: tuple[str, ...], error: str
) -> None:
    cluster = directories("n1")
    ended = cluster.run("bench", "-i", str(cluster.inventory), *words, code=ExitCode.USAGE)
    assert error in ended.stderr
    assert cluster.outcomes() == {}


def test_a_baseline_that_cannot_be_read_is_named_before_anything_is_measured(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1", "n2")
    kept = cluster.inventory.parent / ".pylaunch" / "bench-baseline.json"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("<<<<<<< ours\n")
    for words in ((), ("--save-baseline",)):
        ended = cluster.run("bench", "-i", str(cluster.inventory), *words, code=ExitCode.USAGE)
        assert f"hint: rm {kept}, and pylaunch bench -i {cluster.inventory} --save-baseline" in ended.stderr
        assert cluster.outcomes() == {}


def test_more_ranks_than_devices(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    lines = cluster.inventory.read_text().splitlines()
    cluster.inventory.write_text("".join(f"{line} gpus=2\n" if line[:1] == "n" else f"{line}\n" for line in lines))
    ended = cluster.run("bench", "-i", str(cluster.inventory), "--backend", "nccl", "--nproc-per-node", "3")
    assert ended.returncode == ExitCode.USAGE
    assert "error: --nproc-per-node 3 is more than the devices of n[1-2]" in ended.stderr


def test_ranks_without_torch_break_the_stage_after_the_barrier(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    plots = cluster.inventory.with_name("plots")
    words = ("--python", sys.executable, "--json", "--plots", str(plots))
    ended = cluster.run("bench", "-i", str(cluster.inventory), *words)
    assert not plots.exists()
    assert f"--plots {plots}: no plot is written, because nothing was measured that has one" in ended.stderr
    assert ended.returncode == ExitCode.CLUSTER_NOT_READY
    document = documented(ended.stdout, "pylaunch bench")
    assert [(each["stage"], each["state"]) for each in document["stages"]] == [
        ("connect", "ok"), ("barrier", "ok"), ("correctness", "broken"),
    ]  # fmt: skip
    broken = document["stages"][-1]
    assert "No module named 'torch'" in "\n".join((broken["text"], *broken["evidence"]))
    assert document["runs"] == list(cluster.outcomes())
    page = cluster.inventory.with_name("why.html")
    assert cluster.run("report", "-i", str(cluster.inventory), "-o", str(page)).returncode == ExitCode.DONE
    text = page.read_text()
    assert "pylaunch bench, 2 ranks, backend gloo" in text
    assert "broken   correctness: " in text
