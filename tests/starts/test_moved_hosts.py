"""Hosts that are at other addresses than at the start of a run: here, a root directory is the address of a node."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, appears, ended, killed_controller


@pytest.fixture
def live(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> DirectoryCluster:
    """A run on n1 and n2 that waits; nobody but its agents follows it."""
    cluster = directories("n1", "n2")
    ended(cluster.start("--detach", "--skip", "all", "--", "sh", "-c", f"touch {tmp_path}/up.$RANK; exec sleep 600"))
    for rank in (0, 1):
        appears(tmp_path / f"up.{rank}")
    killed_controller(cluster)
    return cluster


def test_the_inventory_that_was_written_since_the_start_says_where_hosts_are(live: DirectoryCluster) -> None:
    (run,), text = live.outcomes(), live.inventory.read_text()
    swapped = text.replace("/n1/root", "/aside/root").replace("/n2/root", "/n1/root").replace("/aside/root", "/n2/root")
    live.inventory.write_text(swapped)
    shown = live.run("status", run, code=ExitCode.DONE).stdout
    assert "n1: unreachable (127.0.0.1 leads to another node of the run: 'n2')" in shown
    assert "no agent of it answers on n[1-2]" in live.run("stacks", run, code=ExitCode.CLUSTER_NOT_READY).stderr
    stopped = live.run("stop", run, code=ExitCode.CLUSTER_NOT_READY).stderr
    assert "n1: the address leads to another node of the run: n2" in stopped
    live.inventory.write_text(text)
    assert "n2: running, rank 1" in live.run("status", run).stdout
    assert "n[1-2]: clean" in live.run("stop", run, code=ExitCode.DONE).stderr
