"""A start with --preload as a person types it: its phases, first lines, and the reason where it does not preload."""

import contextlib
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pylaunch.agent.shared import processes
from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended
from tests.waiting import wait_until

SCRIPT = """
import decimal, os, sys
print(os.environ["RANK"], "graphlib" in sys.modules, sys.argv[1:], __name__, flush=True)
"""
WAITS = """
import os, time
open(f"{here}/imports.{{os.getppid()}}", "w").close()
while not os.path.exists("{here}/go"):
    time.sleep(0.05)
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


RESTARTED = """
import os, sys, time
print(os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"], "counting" in sys.modules, flush=True)
if os.environ["TORCHELASTIC_RESTART_COUNT"] in os.environ["FAILS"]:
    printed = [f"{rank}.{os.environ['TORCHELASTIC_RESTART_COUNT']}" for rank in range(4)]
    open(printed[int(os.environ["RANK"])], "w").close()
    if os.environ["RANK"] == "3":  # Its failure ends the others.
        while not all(map(os.path.exists, printed)):
            time.sleep(0.01)
        sys.exit(7)
    time.sleep(600)
"""


def in_directory(directory: Path) -> list[str]:
    """Return the processes that work in `directory`: ranks and templates."""
    found = []
    for process in processes.mine():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process.pid}/cwd").readlink() == directory:
                found.append(str(process))
    return found


@pytest.mark.parametrize(("fails", "restarts", "attempts"), [("0", "2", 2), ("01234", "5", 3)], ids=["once", "loop"])
def test_a_restart_imports_once_on_each_node_and_leaves_nothing(
    directories: Callable[..., DirectoryCluster], tmp_path: Path, fails: str, restarts: str, attempts: int
) -> None:
    cluster = directories("n1", "n2")
    (tmp_path / "library").mkdir()
    counted = tmp_path / "counted"
    (tmp_path / "library" / "counting.py").write_text(f"open({str(counted)!r}, 'a').write('x')")
    (cluster.inventory.parent / "train.py").write_text(RESTARTED)
    ended = cluster.run(
        "start", "-i", str(cluster.inventory), "--framework", "direct", "--workdir", str(cluster.inventory.parent),
        "--python", "/usr/bin/python3", "--nproc-per-node", "2", "--no-check", "--preload", "counting",
        "--env", f"PYTHONPATH={tmp_path / 'library'}", "--env", f"FAILS={fails}", "--max-restarts", restarts,
        "--", "train.py",
    )  # fmt: skip
    assert ended.returncode == (0 if fails == "0" else 1), ended.stderr
    assert lines(ended) == sorted(f"{rank} {attempt} True" for rank in range(4) for attempt in range(attempts))
    assert counted.read_text() == "xx" * attempts, "one import on each of two nodes"
    assert ("no restart: 3 attempts in a row made no progress" in ended.stderr) == (fails != "0")
    assert in_directory(cluster.inventory.parent) == []


def test_a_node_that_is_gone_between_its_preparation_and_the_release_refuses_the_start_of_all(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster, modules = directories("n1", "n2"), tmp_path / "modules"
    modules.mkdir()
    (modules / "waits.py").write_text(WAITS.format(here=tmp_path))
    job = ("--no-check", "--python", "/usr/bin/python3", "--env", f"PYTHONPATH={modules}", "--preload", "waits")
    (tmp_path / "train.py").write_text(f"open({str(tmp_path)!r} + '/began', 'w')\n")
    words = ("start", "-i", str(cluster.inventory), "--workdir", str(tmp_path), *job, "--", "train.py")
    start = cluster.begin(*words)
    wait_until(lambda: len([*tmp_path.glob("imports.*")]) == 2, "both nodes are ready and import")
    (agent,) = cluster.nodes["n2"].agents()
    os.kill(agent, signal.SIGKILL)
    (tmp_path / "go").touch()
    done = ended(start, code=ExitCode.CLUSTER_NOT_READY)
    assert "n2: it was ready, and then: the agent closed the connection" in done.stderr
    assert "so no rank was started" in done.stderr
    assert not (tmp_path / "began").exists()
