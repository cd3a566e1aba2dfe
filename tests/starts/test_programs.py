"""Programs as people name them: modules, and other launchers' lines."""

import sys
from collections.abc import Callable
from pathlib import Path

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended

VIEW = "import os, sys; print(os.environ['RANK'], os.environ['WORLD_SIZE'], sys.argv[1:], __name__, __package__)"


def test_a_module_that_travels_with_the_run_is_one_world(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1")
    (tmp_path / "work/pkg").mkdir(parents=True)
    (tmp_path / "work/pkg/train.py").write_text(VIEW)
    work = str(tmp_path / "work")
    words = ("--framework", "direct", "--python", sys.executable, "--sync", work, "--nproc-per-node", "2")
    start = ended(cluster.begin("start", "-i", str(cluster.inventory), *words, "-m", "pkg.train", "--lr", "3"))
    assert start.returncode == ExitCode.DONE, start.stderr
    assert sorted(start.stdout.splitlines()) == [
        f"n1:{rank} | {rank} 2 ['--lr', '3'] __main__ pkg" for rank in range(2)
    ]


def test_a_pasted_launcher_line_is_one_world_of_all_nodes(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    """As a command of its own, it would be a world on each node, and every one of them would end well."""
    cluster = directories("n1", "n2")
    (tmp_path / "accelerated.py").write_text(f"if False:\n    pass\nfrom accelerate import Accelerator\n{VIEW}")
    (tmp_path / "accelerate.py").write_text("class Accelerator: pass")
    words = ("--workdir", str(tmp_path), "--python", sys.executable)
    pasted = ("torchrun", "--standalone", "--nproc_per_node=2", "accelerated.py", "-x")
    start = ended(cluster.begin("start", "-i", str(cluster.inventory), *words, "--", *pasted), code=ExitCode.DONE)
    assert sorted(line.partition("| ")[2] for line in start.stdout.splitlines()) == [
        f"{rank} 4 ['-x'] __main__ None" for rank in range(4)
    ]
    assert "pylaunch starts the ranks in place of torchrun, takes over --nproc-per-node 2" in start.stderr
    assert "--framework accelerate, because of accelerate.Accelerator" in start.stderr
