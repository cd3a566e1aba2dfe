"""Hosts that are at other addresses than at the start of a run: here, a root directory is the address of a node."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, appears, ended, gone


@pytest.fixture
def live(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> DirectoryCluster:
    """A run on n1 and n2 that waits; nobody but its agents follows it."""
    cluster = directories("n1", "n2")
    ended(cluster.start("--detach", "--no-check", "--", "sh", "-c", f"touch {tmp_path}/up.$RANK; exec sleep 600"))
    for rank in (0, 1):
        appears(tmp_path / f"up.{rank}")
    (run,) = cluster.outcomes()
    controller = int((cluster.state / "pylaunch" / "runs" / run / "controller").read_text())
    os.kill(controller, signal.SIGKILL)
    gone(controller)
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


def test_a_run_that_another_machine_does_not_know_is_not_over(live: DirectoryCluster) -> None:
    (run,), elsewhere = live.outcomes(), live.inventory.with_name("elsewhere.ini")
    for name in ("n1", "n2"):
        other = live.nodes[name].path / "other"
        other.mkdir(mode=0o700)
        shutil.copytree(live.nodes[name].path / "root/agents", other / "agents")
    elsewhere.write_text(live.inventory.read_text().replace("/root ", "/other "))
    record = (live.state / "pylaunch" / "runs" / run / "plan.json").read_bytes()
    shown = live.run("status", run, "-i", str(elsewhere), code=ExitCode.DONE).stdout
    assert f"run {run}: not found, 2 ranks" in shown
    assert "n1: not found (127.0.0.1: no file of the run is there: it may be another machine (-i INVENTORY" in shown
    attach = live.run("attach", run, "-i", str(elsewhere), code=ExitCode.CLUSTER_NOT_READY)
    assert "no agent of it answers on n[1-2]" in attach.stderr
    assert live.outcomes() == {run: {}}
    assert (live.state / "pylaunch" / "runs" / run / "plan.json").read_bytes() == record
    assert "n[1-2]: clean" in live.run("stop", run, code=ExitCode.DONE).stderr
