"""`pylaunch bench` with real torch: every collective is right, and a baseline that was better is a regression."""

import csv
import json
import signal
from pathlib import Path
from typing import Any

from pylaunch.errors import ExitCode
from pylaunch.features.bench.judgement.operations import Operation
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster, ended, made_of_directories, says
from tests.waiting import wait_until

ENDS_S = 400.0
SMALL = ("--max-size", "64K", "--iterations", "3", "--warm-up", "1")


def measured(cluster: DirectoryCluster, python: Path, *words: str, code: int | None) -> dict[str, Any]:
    """The document of `pylaunch bench` with ranks of this interpreter."""
    called = ("bench", "-i", str(cluster.inventory), "--python", str(python), "--json", *SMALL, *words)
    found = ended(cluster.begin(*called), ENDS_S, code=code)
    document = documented(found.stdout, "pylaunch bench")
    assert document["exit_code"] == found.returncode
    return document


def test_every_stage_on_two_nodes(torch_python: Path, tmp_path: Path) -> None:
    cluster = made_of_directories(tmp_path, ("n1", "n2"))
    data = tmp_path / "shard"
    data.write_bytes(b"x" * 100_000)
    files = (
        "--csv",
        str(tmp_path / "sweep.csv"),
        "--plots",
        str(tmp_path / "plots"),
        "--html",
        str(tmp_path / "bench.html"),
    )
    found = measured(cluster, torch_python, "--data", str(data), *files, code=ExitCode.DONE)
    assert {each["state"] for each in found["stages"]} == {"ok"}
    assert {each["operation"] for each in found["collectives"]} == {each.value for each in Operation}
    assert {each["wrong"] for each in found["collectives"]} == {0}
    assert [each["of"] for each in found["latencies"]] == ["all-reduce", "round trip"]
    assert [(each["first"], each["second"]) for each in found["pairs"]] == [("n1", "n2")]
    assert "fewer than 3 nodes" in found["abstained"]
    assert [each["bytes"] for each in found["reads"]] == [100_000, 100_000]
    assert len(found["compute"]) == 2
    assert len((tmp_path / "sweep.csv").read_text().splitlines()) == 1 + len(found["collectives"])
    assert (tmp_path / "bench.html").read_text().count("<svg") == 3
    for name, shows in (("bandwidth", "all-to-all"), ("latency", "round trip"), ("pairs", "n1 and n2")):
        assert shows in (tmp_path / "plots" / f"{name}.svg").read_text()
    report = tmp_path / "report.html"
    ended(cluster.begin("report", "-i", str(cluster.inventory), "-o", str(report)), ENDS_S, code=ExitCode.DONE)
    section, is_whole, _ = report.read_text().partition('<section id="measured">')[2].partition("</section>")
    assert is_whole
    assert section.count("<svg") == 3
    for shows in ("all-to-all", "round trip", "n1 and n2", "pairs: no verdict: fewer than 3 nodes"):
        assert shows in section


def test_nccl_without_gpus_and_a_path_without_data_break_their_stage_with_one_line(
    torch_python: Path, tmp_path: Path
) -> None:
    cluster = made_of_directories(tmp_path, ("n1", "n2"))
    words = ("--stage", "read", "--data", str(tmp_path / "missing"))
    read = measured(cluster, torch_python, *words, code=ExitCode.CLUSTER_NOT_READY)["stages"][-1]
    assert (read["stage"], read["state"]) == ("read", "broken")
    assert f"--data {tmp_path / 'missing'}: no file with content on this host" in "\n".join(read["evidence"])
    lines = cluster.inventory.read_text().splitlines()
    cluster.inventory.write_text("".join(f"{line} gpus=1\n" if line[:1] == "n" else f"{line}\n" for line in lines))
    nccl = measured(cluster, torch_python, "--stage", "sweep", code=ExitCode.CLUSTER_NOT_READY)["stages"][-1]
    assert (nccl["stage"], nccl["state"]) == ("correctness", "broken")
    assert "--backend nccl: torch finds no CUDA device here" in "\n".join((nccl["text"], *nccl["evidence"]))


def test_a_baseline_that_was_far_better_is_a_regression(torch_python: Path, tmp_path: Path) -> None:
    cluster = made_of_directories(tmp_path, ("n1", "n2"))
    words = ("--stage", "sweep", "--operation", "all-reduce")
    first = measured(cluster, torch_python, *words, "--save-baseline", code=ExitCode.DONE)
    path = tmp_path / ".pylaunch" / "bench-baseline.json"
    kept = json.loads(path.read_text())
    assert [each["bytes"] for each in kept["levels"]] == [each["bytes"] for each in first["collectives"]]
    for each in kept["levels"]:
        each["busbw_gbps"], each["noise"] = 1000.0, 0.0
    path.write_text(json.dumps(kept))
    again = measured(cluster, torch_python, *words, "--iterations", "30", "--beside", "lo", code=None)
    assert [each["bytes"] for each in again["beside"]] == [each["bytes"] for each in again["collectives"]]
    lost = {each["bytes"] for each in again["regressions"]}
    quiet = {each["bytes"] for each in again["collectives"] if each["noise"] < 0.3}
    assert quiet <= lost
    assert again["exit_code"] == (ExitCode.JOB_FAILED if lost else ExitCode.DONE)  # All are noisy on a busy machine.
    assert all(each["loss"] > 0.9 for each in again["regressions"])


def sizes_measured(directory: Path) -> int:
    """Return the number of sizes of collectives that rank 0 has reported."""
    return sum(log.read_text().count('"collective"') for log in directory.glob("n1/root/runs/*/logs/0.out"))


def test_an_interrupt_in_the_sweep_keeps_the_sizes_that_are_complete(torch_python: Path, tmp_path: Path) -> None:
    cluster = made_of_directories(tmp_path, ("n1", "n2"))
    page, table = tmp_path / "bench.html", tmp_path / "sweep.csv"
    files = ("--csv", str(table), "--plots", str(tmp_path / "plots"), "--html", str(page), "--save-baseline")
    words = ("bench", "-i", str(cluster.inventory), "--python", str(torch_python), "--json", "--iterations", "100000")
    begun = cluster.begin(*words, *files)
    says(begun, "correctness: ")
    wait_until(lambda: sizes_measured(tmp_path) > 1, "two sizes", ENDS_S)  # Each of the others takes half a second.
    begun.send_signal(signal.SIGINT)
    found = ended(begun, ENDS_S, code=ExitCode.INTERRUPTED)
    document = documented(found.stdout, "pylaunch bench")
    assert (document["exit_code"], document["error"]["exit_code"]) == (130, 130)
    states = [(each["stage"], each["state"]) for each in document["stages"]]
    assert states[:3] == [("connect", "ok"), ("barrier", "ok"), ("correctness", "ok")]
    assert states[3:] == [("sweep", "interrupted")]
    last = document["collectives"][-1]
    incomplete = document["incomplete"]
    assert (incomplete["stage"], incomplete["not_measured"]) == ("sweep", ["latency", "pairs", "compute"])
    assert f"{last['operation']} of {last['bytes']} bytes" in incomplete["reached"]
    assert document["abstained"] is None
    rows = list(csv.reader(table.read_text().splitlines()))
    assert len(rows) == 1 + len(document["collectives"]) + 1
    assert rows[-1][0].startswith("# incomplete: sweep was interrupted")
    for text in (page.read_text(), (tmp_path / "plots" / "bandwidth.svg").read_text()):
        assert "incomplete: sweep was interrupted" in text
    assert not (tmp_path / ".pylaunch" / "bench-baseline.json").exists()
    assert f"pylaunch report {document['runs'][0]}" in found.stderr
    assert "--stage sweep --stage latency --stage pairs --stage compute" in found.stderr
    report = tmp_path / "report.html"
    ended(cluster.begin("report", document["runs"][0], "-o", str(report)), ENDS_S, code=ExitCode.DONE)
    section = report.read_text().partition('<section id="measured">')[2].partition("</section>")[0]
    assert "incomplete: sweep was interrupted" in section
    assert "<svg" in section
