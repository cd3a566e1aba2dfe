"""A start with --preload as a person types it: its phases, first lines, and the reason where it does not preload."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.starts.cluster import DirectoryCluster

SCRIPT = """
import decimal, os, sys
print(os.environ["RANK"], "graphlib" in sys.modules, sys.argv[1:], __name__, flush=True)
"""
FIRST_LINES = r"first line of code on 4 ranks: \d+ ms after the release, skew \d+\.\d ms"


def started(cluster: DirectoryCluster, *flags: str, words: tuple[str, ...] = ("train.py",)) -> CompletedProcess[str]:
    directory = cluster.inventory.parent
    (directory / "train.py").write_text(SCRIPT)
    options = ("--workdir", str(directory), "--python", "/usr/bin/python3", "--nproc-per-node", "2", "--no-check")
    return cluster.run(
        "start", "-i", str(cluster.inventory), "--framework", "direct", *options, *flags, "--", *words, "--lr", "3"
    )


def lines(ended: CompletedProcess[str]) -> list[str]:
    return sorted(line.partition(" | ")[2] for line in ended.stdout.splitlines())


@pytest.mark.parametrize("words", [("train.py",), ("-m", "train")], ids=["script", "module"])
def test_ranks_have_imported_the_modules_when_their_script_begins(
    directories: Callable[..., DirectoryCluster], words: tuple[str, ...]
) -> None:
    cluster = directories("n1", "n2")
    ended = started(cluster, "--preload", "graphlib", words=words)
    assert ended.returncode == 0, ended.stderr
    assert lines(ended) == [f"{rank} True ['--lr', '3'] __main__" for rank in range(4)]
    assert re.search(r"started in .*prepare \d+\.\d\d, preload \d+\.\d\d, release", ended.stderr)
    assert re.search(FIRST_LINES, ended.stderr)
    assert "no preload" not in ended.stderr
    (run,) = cluster.outcomes()
    status = json.loads(cluster.run("status", run, "--json").stdout)
    assert "preload" in status["start_seconds"]
    assert 0 <= status["first_line"]["skew_s"] <= status["first_line"]["last_s"]


def test_ranks_of_a_plain_start_report_their_first_lines(directories: Callable[..., DirectoryCluster]) -> None:
    ended = started(directories("n1", "n2"))
    assert ended.returncode == 0, ended.stderr
    assert lines(ended) == [f"{rank} False ['--lr', '3'] __main__" for rank in range(4)]
    assert re.search(FIRST_LINES, ended.stderr)
    assert "preload" not in ended.stderr


def test_the_reason_of_an_ordinary_start_is_one_line(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "odd.py").write_text("import os; rank = os.environ.get('RANK', '0')")
    ended = started(directories("n1", "n2"), "--env", f"PYTHONPATH={tmp_path / 'library'}", "--preload", "odd")
    assert ended.returncode == 0, ended.stderr
    assert lines(ended) == [f"{rank} False ['--lr', '3'] __main__" for rank in range(4)]
    noted = [line for line in ended.stderr.splitlines() if "preload" in line and line.startswith("note:")]
    assert noted == ["note: no preload on n[1-2]: the import uses RANK, a variable of one rank"]
