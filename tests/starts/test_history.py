"""The history after real runs."""

from __future__ import annotations

import json
from collections.abc import Callable

from pylaunch.errors import ExitCode
from tests.json_pages import has_the_forms, undescribed
from tests.starts.cluster import DirectoryCluster, ended

SCRIPT = "if [ $RANK = 1 ]; then exit 3; else exec sleep 600; fi"


def test_a_run_is_in_the_history_when_it_has_ended(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    failed = ended(cluster.start("--max-restarts", "1", "--", "sh", "-c", SCRIPT))
    assert failed.returncode == ExitCode.JOB_FAILED, failed.stderr
    assert (cluster.state / "pylaunch/history.sqlite").exists()
    done = cluster.run("history", "--json")
    assert done.returncode == ExitCode.DONE, done.stderr
    document = json.loads(done.stdout)
    has_the_forms(document)
    assert undescribed(document, "pylaunch history") == set()
    (run,), (node,) = document["runs"], document["failing_nodes"]
    assert (run["attempts"], run["status"], node["node"], node["failures"]) == (2, "failed", "n2", 2)
    assert 0 < run["start_seconds"] < run["seconds"]
    shown = cluster.run("history")
    assert shown.returncode == ExitCode.DONE, shown.stderr
    assert "n2    2 " in shown.stdout
