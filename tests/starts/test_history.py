"""The history after real runs."""

import json
import re
from collections.abc import Callable

from pylaunch.errors import ExitCode
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster, ended

SCRIPT = "if [ $RANK = 1 ]; then exit 3; else exec sleep 600; fi"


def test_a_run_is_in_the_history_when_it_has_ended(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    ended(cluster.start("--max-restarts", "1", "--", "sh", "-c", SCRIPT), code=ExitCode.JOB_FAILED)
    assert (cluster.state / "pylaunch/history.sqlite").exists()
    done = cluster.run("history", "--json", code=ExitCode.DONE)
    document = documented(done.stdout, "pylaunch history")
    (run,) = document["runs"]
    assert (run["attempts"], run["status"], document["failing_nodes"]) == (2, "failed", []), "the script's own error"
    assert 0 < run["start_seconds"] < run["seconds"]


def test_a_node_that_failed_twice_is_named_by_check_and_left_out(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2", "n3")
    broken = "[ $RANK = 1 ] || exec sleep 600; echo 'CUDA error: uncorrectable ECC error encountered' >&2; exit 1"
    for _ in range(2):
        ended(cluster.start("--limit", "n1,n2", "--", "sh", "-c", broken), code=ExitCode.JOB_FAILED)
    checked = cluster.run("check", "-i", str(cluster.inventory), "--only", "history", "--json", code=ExitCode.DONE)
    document = json.loads(checked.stdout)
    (finding,) = document["findings"]
    assert (finding["check"], finding["severity"], finding["hosts"]) == ("history.failures", "warn", ["n2"])
    assert finding["text"].startswith("GPU hardware: failed 2 times within 24 hours; ")
    assert finding["fix"].removeprefix("pylaunch explain ") in cluster.outcomes()
    (node,) = documented(cluster.run("history", "--json").stdout, "pylaunch history")["failing_nodes"]
    assert (node["node"], node["failures"]) == ("n2", 2)
    assert "n2    2 " in cluster.run("history", code=ExitCode.DONE).stdout
    words = ("--avoid-unhealthy", "--max-restarts", "1", "--spares", "1", "--", "sh", "-c", "exit 0")
    avoided = ended(cluster.start(*words), code=ExitCode.DONE)
    assert re.search(
        r"^note: left out until .*: n2: GPU hardware, 2 times within 24 hours \(runs ", avoided.stderr, re.M
    )
    assert "note: 0 of 1 spares remain" in avoided.stderr
    assert "2 ranks on n[1,3]" in avoided.stderr
    refused = ended(cluster.start("--avoid-unhealthy", "--nodes", "3", "--", "true"), code=ExitCode.CLUSTER_NOT_READY)
    assert "--avoid-unhealthy leaves 2 of 3 hosts, and the run needs 3" in refused.stderr
