"""A start continues and records the outcome of its run, wherever its output goes."""

from collections.abc import Callable
from pathlib import Path

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended


def test_a_start_whose_output_nobody_reads_any_more_follows_its_run_to_the_end(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1")
    gate = cluster.inventory.with_name("gate")
    start = cluster.start("--", "sh", "-c", f"echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two; exit 3")
    assert start.stdout is not None
    assert start.stdout.readline() == "n1:0 | one\n"
    start.stdout.close()
    gate.touch()
    assert start.stderr is not None
    output = start.stderr.read()
    assert start.wait() == ExitCode.JOB_FAILED
    assert "cannot be shown here any more (Broken pipe); the run continues: pylaunch logs -f " in output
    assert [each["status"] for each in cluster.outcomes().values()] == ["failed"]


def test_a_start_whose_output_goes_to_a_full_disk_follows_its_run_to_the_end(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1")
    with Path("/dev/full").open("wb") as full:
        start = ended(cluster.start("--", "sh", "-c", "echo one; exit 3", stdout=full), code=ExitCode.JOB_FAILED)
    assert "cannot be shown here any more (No space left on device); the run continues" in start.stderr
    assert "error: run " in start.stderr
