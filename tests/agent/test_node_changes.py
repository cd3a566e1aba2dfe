"""Why a rank ended, where only its node knows: an unmounted directory, a limit, a filter of system calls."""

import os
import subprocess
from pathlib import Path

import pytest

from pylaunch import protocol
from tests.agent.controller import Node, task


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small file system")
def test_a_directory_that_is_unmounted_during_the_run_is_named(node: Node, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "small", data], check=True)
    opens = f"umount -l {data}; exec python3 -c \"open('{data}/7.bin')\""
    end = node.started(task(tmp_path, opens)).until(protocol.RankEnd)
    assert isinstance(end, protocol.RankEnd)
    assert end.error.endswith(f"'{data}/7.bin'; {data} was mounted at the start and is not mounted now")


def test_the_limit_that_ended_a_rank_by_a_signal_is_named(node: Node, tmp_path: Path) -> None:
    end = node.started(task(tmp_path, "ulimit -S -t 1; while :; do :; done")).until(protocol.RankEnd)
    assert isinstance(end, protocol.RankEnd)
    assert end.error.startswith("it used up its processor time (ulimit -t: ")
    other = node.started(task(tmp_path, "kill -SYS $$", run="r2")).until(protocol.RankEnd)
    assert isinstance(other, protocol.RankEnd)
    assert other.error.startswith("a filter of system calls (seccomp) forbade one: ")
