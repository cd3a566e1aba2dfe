"""`pylaunch bench` with real torch."""

from pathlib import Path
from typing import Any

from pylaunch.errors import ExitCode
from pylaunch.features.bench.run.bench_run import SIZES
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster, ended, made_of_directories

ENDS_S = 400.0


def measured(cluster: DirectoryCluster, python: Path, *words: str, code: int | None) -> dict[str, Any]:
    """The document of `pylaunch bench` with ranks of this interpreter."""
    called = ("bench", "-i", str(cluster.inventory), "--python", str(python), "--json", *words)
    found = ended(cluster.begin(*called), ENDS_S, code=code)
    document = documented(found.stdout, "pylaunch bench")
    assert document["exit_code"] == found.returncode
    return document


def test_every_stage_on_two_nodes(torch_python: Path, tmp_path: Path) -> None:
    cluster = made_of_directories(tmp_path, ("n1", "n2"))
    found = measured(cluster, torch_python, code=ExitCode.DONE)
    assert {each["state"] for each in found["stages"]} == {"ok"}
    assert [each["bytes"] for each in found["all_reduce"]] == list(SIZES)
    assert {each["wrong"] for each in found["all_reduce"]} == {0}
    assert [(each["first"], each["second"]) for each in found["pairs"]] == [("n1", "n2")]
    assert "fewer than 3 nodes" in found["abstained"]


def test_nccl_without_gpus_breaks_its_stage_with_one_line(torch_python: Path, tmp_path: Path) -> None:
    cluster = made_of_directories(tmp_path, ("n1", "n2"))
    lines = cluster.inventory.read_text().splitlines()
    cluster.inventory.write_text("".join(f"{line} gpus=1\n" if line[:1] == "n" else f"{line}\n" for line in lines))
    nccl = measured(cluster, torch_python, "--stage", "all-reduce", code=ExitCode.CLUSTER_NOT_READY)["stages"][-1]
    assert (nccl["stage"], nccl["state"]) == ("correctness", "broken")
    assert "--backend nccl: torch finds no CUDA device here" in "\n".join((nccl["text"], *nccl["evidence"]))
