"""A node without room for the code of a run."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended, made_of_directories


def begin(cluster: DirectoryCluster, work: Path) -> subprocess.Popen[str]:
    words = ("start", "-i", str(cluster.inventory), "--framework", "command", "--sync", str(work), "--", "./run.sh")
    return cluster.begin(*words)


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small file system")
def test_a_disk_without_room_for_the_code_is_the_one_reason(tmp_path: Path) -> None:
    cluster = made_of_directories(tmp_path, ("n1", "n2"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "weights").write_bytes(bytes(20 << 20))
    (work / "run.sh").write_text("#!/bin/sh\nsha256sum weights\n")
    (work / "run.sh").chmod(0o755)
    ended(begin(cluster, work), code=ExitCode.DONE)
    root = cluster.nodes["n2"].path / "root"
    shutil.copytree(root, saved := root.parent / "saved")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700,size=24m", "small", root], check=True)
    try:
        shutil.copytree(saved, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("blobs", "trees", "runs"))
        refused = ended(begin(cluster, work))
    finally:
        subprocess.run(["umount", "-l", root], check=True)
    assert refused.returncode == ExitCode.CLUSTER_NOT_READY
    _, _, reported = refused.stderr.partition("hosts cannot take part, so no rank was started\n")
    reason, _, hint = reported.partition("\n")
    assert re.fullmatch(rf"  n2: the code cannot be kept in {root}: No space left on device \(.*\)", reason)
    assert hint == f"\nhint: df -h {root}\n"
