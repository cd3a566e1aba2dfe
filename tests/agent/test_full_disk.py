"""A file system that a run fills: it is named with the rank that failed, and the record and the clean-up still work."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pylaunch import protocol
from tests.agent.controller import Node, task
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="mounts a small file system")
FILL = "dd if=/dev/zero of=%s/fill bs=64k 2> /dev/null; exit 1"


@pytest.fixture
def small() -> Iterator[Callable[[Path, str], None]]:
    """Mounts an empty file system with these options at a path."""
    with ExitStack() as stack:

        def mount(path: Path, options: str) -> None:
            path.mkdir(mode=0o700, parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "small", path], check=True)
            stack.callback(lambda: subprocess.run(["umount", "-l", path], check=True))

        yield mount


def takes_an_inode(path: Path) -> bool:
    try:
        path.touch()
    except OSError:
        return False
    return True


def test_a_working_directory_that_is_full_is_named_with_the_rank_that_failed(
    node: Node, tmp_path: Path, small: Callable[[Path, str], None]
) -> None:
    small(tmp_path / "work", "size=1m")
    ends = node.started(task(tmp_path / "work", FILL % ".")).until(protocol.RankEnd)
    assert isinstance(ends, protocol.RankEnd)
    assert ends.error == f"{tmp_path}/work is full (0 KiB of 1 MiB free)"


def test_inodes_that_are_used_up_are_named_and_a_clean_end_names_nothing(
    node: Node, tmp_path: Path, small: Callable[[Path, str], None]
) -> None:
    small(tmp_path / "work", "size=1m,nr_inodes=20")
    empties = "for i in $(seq 30); do : > $i || exit 1; done"
    first = node.started(task(tmp_path / "work", empties)).until(protocol.RankEnd)
    assert isinstance(first, protocol.RankEnd)
    assert first.error == f"{tmp_path}/work has no inodes left (0 of 20 free)"
    second = node.started(task(tmp_path / "work", "exit 0", run="r2")).until(protocol.RankEnd)
    assert isinstance(second, protocol.RankEnd)
    assert second.error == ""


def test_the_record_is_whole_though_ranks_filled_its_disk_and_clean_works(
    agent_archive: Path, tmp_path: Path, small: Callable[[Path, str], None]
) -> None:
    small(tmp_path / "root", "size=80m,nr_inodes=200")
    node = Node(tmp_path / "root", agent_archive)
    try:
        there = tmp_path / "root"
        fills = f"dd if=/dev/zero of={there}/fill bs=64k; i=0; while touch {there}/$i; do i=$((i+1)); done; exit 1"
        node.started(task(tmp_path, fills)).until(protocol.Finished)
        run = node.root / "runs" / "r1"
        wait_until((run / "outcome.json").exists, "the end of the run")
        kinds = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines() if line]
        assert "Finished" in json.dumps(kinds[-1])
        assert not (run / "reserve").exists()
        (ended,) = [each for each in kinds if "RankEnd" in json.dumps(each)]
        assert f"{run} is full" in json.dumps(ended)
        (run / "agent.lock").unlink()
        wait_until(lambda: takes_an_inode(node.root / "one-more"), "the agent has gone, and its lock's inode with it")
        assert node.cleaned()["left"] == []
        refused = node.open("r2").until(protocol.Failed)
        assert isinstance(refused, protocol.Failed)
        assert "is full" in refused.message or "no inodes left" in refused.message
    finally:
        node.close()
