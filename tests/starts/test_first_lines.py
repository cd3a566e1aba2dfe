"""A start reports when the scripts of its ranks began."""

import json
import re
from collections.abc import Callable

from tests.starts.cluster import DirectoryCluster

SCRIPT = """
import os, sys
print(os.environ["RANK"], sys.argv[1:], __name__, flush=True)
"""
FIRST_LINES = r"first line of code on 4 ranks: \d+ ms after the release, skew \d+\.\d ms"


def test_a_start_reports_when_the_scripts_of_its_ranks_began(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    directory = cluster.inventory.parent
    (directory / "train.py").write_text(SCRIPT)
    options = ("--workdir", str(directory), "--python", "/usr/bin/python3", "--nproc-per-node", "2", "--no-check")
    words = ("start", "-i", str(cluster.inventory), "--framework", "direct", *options, "--", "train.py", "--lr", "3")
    ended = cluster.run(*words)
    assert ended.returncode == 0, ended.stderr
    lines = sorted(line.partition(" | ")[2] for line in ended.stdout.splitlines())
    assert lines == [f"{rank} ['--lr', '3'] __main__" for rank in range(4)]
    assert re.search(FIRST_LINES, ended.stderr)
    (run,) = cluster.outcomes()
    status = json.loads(cluster.run("status", run, "--json").stdout)
    assert 0 <= status["first_line"]["skew_s"] <= status["first_line"]["last_s"]
