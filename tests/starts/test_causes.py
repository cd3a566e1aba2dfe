"""Causes that facts of the hosts show, with their evidence, and failures that are too close to be ordered."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended


def outcome(cluster: DirectoryCluster, script: str) -> dict[str, Any]:
    """Return the outcome of a start whose ranks run `script`, as `status --json` shows it."""
    work = cluster.inventory.parent
    (work / "job").write_text(script)
    words = ("--framework", "command", "--workdir", str(work), "--", "sh", str(work / "job"))
    ended(cluster.begin("start", "-i", str(cluster.inventory), *words), code=ExitCode.JOB_FAILED)
    shown: dict[str, Any] = json.loads(cluster.run("status", *cluster.outcomes(), "--json").stdout)["outcome"]
    return shown


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    if os.getuid() != 0:
        pytest.skip("mounts a small file system")
    place = tmp_path / "small"
    place.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700,size=256k", "small", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_rank_whose_file_system_is_full_fails_because_of_storage(
    directories: Callable[..., DirectoryCluster], small: Path
) -> None:
    fill = f"export TMPDIR={small}; dd if=/dev/zero of={small}/x bs=4k 2> /dev/null"
    text = "OSError: [Errno 28] No space left on device"
    shown = outcome(
        directories("n1", "n2", "n3"), f"[ $RANK = 1 ] || exec sleep 60; {fill} || {{ echo '{text}' >&2; exit 1; }}"
    )
    (first, *_) = shown["causes"]
    assert (first["kind"], first["class"], first["confidence"]) == ("storage", "storage-full", "certain")
    assert first["page"] == "errors-files"
    assert shown["named"] == {"host": "n2", "rank": 1}


def test_of_two_equal_failures_none_is_a_victim_and_none_is_named(
    directories: Callable[..., DirectoryCluster],
) -> None:
    both = "touch up.$RANK; while [ ! -e up.0 ] || [ ! -e up.1 ]; do sleep 0.02; done; exit 3"
    shown = outcome(directories("n1", "n2", "n3"), f"[ $RANK = 2 ] && exec sleep 60; {both}")
    assert shown["named"] is None
    assert shown["reason"] == "2 of 3 ranks (0-1 on n[1-2]) failed alike: exited with code 3"
    assert shown["causes"][0]["kind"] == "rank-failed"
    assert not any("n3" in each["reason"] for each in shown["rejected"])
