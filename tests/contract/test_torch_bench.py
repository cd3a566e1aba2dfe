"""`pylaunch bench` with real torch: every collective is right, and an interrupt keeps what was measured."""

import signal
from pathlib import Path
from typing import Any

from pylaunch.errors import ExitCode
from pylaunch.features.bench.judgement.sweep import Operation
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster, ended, made_of_directories, says
from tests.waiting import wait_until

ENDS_S = 400.0
SMALL = ("--max-size", "64K", "--iterations", "3")


def measured(cluster: DirectoryCluster, python: Path, *words: str, code: int | None) -> dict[str, Any]:
    """The document of `pylaunch bench` with ranks of this interpreter."""
    called = ("bench", "-i", str(cluster.inventory), "--python", str(python), "--json", *SMALL, *words)
    found = ended(cluster.begin(*called), ENDS_S, code=code)
    document = documented(found.stdout, "pylaunch bench")
    assert document["exit_code"] == found.returncode
    return document


def test_every_stage_on_two_nodes(torch_python: Path, tmp_path: Path) -> None:
    cluster = made_of_directories(tmp_path, ("n1", "n2"))
    found = measured(cluster, torch_python, code=ExitCode.DONE)
    assert {each["state"] for each in found["stages"]} == {"ok"}
    assert {each["operation"] for each in found["collectives"]} == {each.value for each in Operation}
    assert {each["wrong"] for each in found["collectives"]} == {0}
    assert [each["of"] for each in found["latencies"]] == ["all-reduce", "round trip"]
    assert [(each["first"], each["second"]) for each in found["pairs"]] == [("n1", "n2")]
    assert "fewer than 3 nodes" in found["abstained"]


def test_nccl_without_gpus_breaks_its_stage_with_one_line(torch_python: Path, tmp_path: Path) -> None:
    cluster = made_of_directories(tmp_path, ("n1", "n2"))
    lines = cluster.inventory.read_text().splitlines()
    cluster.inventory.write_text("".join(f"{line} gpus=1\n" if line[:1] == "n" else f"{line}\n" for line in lines))
    nccl = measured(cluster, torch_python, "--stage", "sweep", code=ExitCode.CLUSTER_NOT_READY)["stages"][-1]
    assert (nccl["stage"], nccl["state"]) == ("correctness", "broken")
    assert "--backend nccl: torch finds no CUDA device here" in "\n".join((nccl["text"], *nccl["evidence"]))


def sizes_measured(directory: Path) -> int:
    """Return the number of sizes of collectives that rank 0 has reported."""
    return sum(log.read_text().count('"collective"') for log in directory.glob("n1/root/runs/*/logs/0.out"))


def test_an_interrupt_in_the_sweep_keeps_the_sizes_that_are_complete(torch_python: Path, tmp_path: Path) -> None:
    cluster = made_of_directories(tmp_path, ("n1", "n2"))
    words = ("bench", "-i", str(cluster.inventory), "--python", str(torch_python), "--json", "--iterations", "100000")
    begun = cluster.begin(*words)
    says(begun, "correctness: ")
    wait_until(lambda: sizes_measured(tmp_path) > 1, "two sizes", ENDS_S)  # Each of the others takes half a second.
    begun.send_signal(signal.SIGINT)
    found = ended(begun, ENDS_S, code=ExitCode.INTERRUPTED)
    document = documented(found.stdout, "pylaunch bench")
    assert (document["exit_code"], document["error"]["exit_code"]) == (130, 130)
    states = [(each["stage"], each["state"]) for each in document["stages"]]
    assert states[:3] == [("connect", "ok"), ("barrier", "ok"), ("correctness", "ok")]
    assert states[3:] == [("sweep", "interrupted")]
    assert document["collectives"]
    assert document["abstained"] is None
