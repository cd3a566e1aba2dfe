"""Starts that wait in the queue for the devices of their hosts."""

import asyncio
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.agent.shared import leases
from pylaunch.base.layout import default_root
from pylaunch.errors import ClusterNotReadyError, ExitCode
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.runs.prepare import queue
from tests.starts.cluster import DirectoryCluster, appears, ended, says


def test_a_start_that_waits_runs_when_its_devices_are_free_and_is_stopped_as_any_other(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    cluster.inventory.write_text(f"{cluster.inventory.read_text()}devices=0\n")
    holds = f"touch {tmp_path}/up; while [ ! -e {tmp_path}/end ]; do sleep 0.05; done"
    holder = cluster.start("--nodes", "1", "--", "sh", "-c", holds)
    appears(tmp_path / "up")
    waiting = cluster.start("--queue", "--nodes", "1", "--", "true")
    says(waiting, "waiting for n1: device 0, run ")
    leaver = cluster.start("--queue", "--nodes", "2", "--", "true")
    says(leaver, "waiting for n1: device 0, run ")
    listed = json.loads(cluster.run("ps", "--json").stdout)["runs"]
    (left,) = [each["run"] for each in listed if each["status"] == "waiting" and each["hosts"] == ["n1", "n2"]]
    assert "interrupted before any rank was started" in cluster.run("stop", left, code=ExitCode.DONE).stderr
    ended(leaver, code=ExitCode.INTERRUPTED)
    (tmp_path / "end").touch()
    ended(holder, code=ExitCode.DONE)
    ended(waiting, code=ExitCode.DONE)


def wait(cluster: DirectoryCluster, report: Callable[[list[str]], None] = lambda _: None) -> None:
    """Wait in the queue of the hosts of `cluster`, whose Python each test replaces."""
    hosts = tuple(
        Host(
            name, "127.0.0.1", connection=Connection.LOCAL, devices=(0,),
            agent_python=str(node.path / "python3"), node_root=str(node.path / "root"),
        )
        for name, node in cluster.nodes.items()
    )  # fmt: skip
    plan = plan_run(Cluster(hosts), JobSpec(("a",), Framework.COMMAND, "/"), "7f3a7f3a")
    asyncio.run(queue.wait_until_free(plan, report))


def test_a_start_for_a_host_that_does_not_answer_waits_no_longer(
    directories: Callable[..., DirectoryCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = directories("n1", "n2")
    (cluster.nodes["n1"].path / "python3").write_text("#!/bin/sh\nexec sleep 600\n")
    monkeypatch.setattr(queue, "ANSWERS_S", 1.0)
    with pytest.raises(ClusterNotReadyError, match="no answer within 1 s"):
        wait(cluster)


def test_a_start_that_waits_says_who_holds_what_and_asks_again(
    directories: Callable[..., DirectoryCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "FIRST_S", 0.05)
    cluster = directories("n1", "n2")
    lease = leases.take(leases.device_name(0, str(cluster.nodes["n2"].path / "root"), default_root()))
    assert isinstance(lease, socket.socket)
    reported: list[list[str]] = []

    def report(blocked_by: list[str]) -> None:
        reported.append(blocked_by)
        lease.close()

    with lease:
        wait(cluster, report)
    ((line,),) = reported
    assert line.startswith(f"n2: device 0, pid {os.getpid()} of ")
