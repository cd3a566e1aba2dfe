"""A run that a person stops, from wherever: it is stopped, not failed, and nothing starts it again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.starts.cluster import CommandLine, DirectoryCluster, appears, ended, says

# What torchrun does on SIGTERM, and when a rank ends: it ends its other ranks and exits with 1.
LAUNCHER = """\
import os, signal, subprocess, sys
words = [word for word in sys.argv[1:] if not word.startswith("--")]
rank = next(word for word in sys.argv if word.startswith("--node-rank=")).partition("=")[2]
children = []
def stop(signum, frame):
    for child in children:
        child.send_signal(signal.SIGTERM)
    raise SystemExit(1)
signal.signal(signal.SIGTERM, stop)  # Before the rank, which shows that it is up.
children.append(subprocess.Popen(words, env={**os.environ, "LOCAL_RANK": "0", "RANK": rank}))
raise SystemExit(1 if children[0].wait() else 0)
"""
# The second rank loses the first, as the peers of a collective do, and fails before its own node hears of the stop.
LOSES_ITS_PEER = "[ $RANK = 1 ] && { touch up.1; while [ ! -e gone ]; do sleep 0.01; done; exit 1; }\n"
JOB = LOSES_ITS_PEER + "trap 'touch gone; sleep 0.3; exit 143' TERM\ntouch up.0\nwhile :; do sleep 0.05; done\n"


@pytest.fixture
def launched(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> DirectoryCluster:
    """Two nodes on which `torchrun` is a small launcher that fails on SIGTERM."""
    package = tmp_path / "torch" / "distributed"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "run.py").write_text(LAUNCHER)
    (tmp_path / "job.py").write_text(f"import os; os.execv('/bin/sh', ['sh', '-c', {JOB!r}])")
    return directories("n1", "n2")


def begin(cluster: DirectoryCluster, *words: str) -> list[str]:
    where = ("--workdir", str(cluster.inventory.parent), "--framework", "torchrun", "--python", "/usr/bin/python3")
    return ["start", "-i", str(cluster.inventory), *where, *words, "--", "job.py"]


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_run_of_a_launcher_is_stopped_from_anywhere_and_not_started_again(
    launched: DirectoryCluster, where: str
) -> None:
    other = launched if where == "here" else CommandLine(launched.inventory, launched.state.with_name("elsewhere"))
    start = launched.begin(*begin(launched, "--max-restarts", "2"))
    says(start, "started in")
    for rank in range(2):
        appears(launched.inventory.parent / f"up.{rank}")
    other.run("stop", "-i", str(launched.inventory), code=ExitCode.DONE)
    followed = ended(start, code=ExitCode.INTERRUPTED)
    (outcome,) = launched.outcomes().values()
    assert outcome["status"] == "stopped", outcome
    assert outcome["reason"].startswith("stopped with pylaunch stop by ")
    assert "restart" not in followed.stderr
