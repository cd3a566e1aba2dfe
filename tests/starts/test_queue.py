"""Starts that wait in the queue for any of several hosts."""

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
from pylaunch.runs.prepare.queue import Turn
from tests.starts.cluster import DirectoryCluster, appears, ended, says


def test_starts_of_one_node_each_use_all_hosts_and_the_next_one_takes_the_first_that_is_free(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    cluster.inventory.write_text(f"{cluster.inventory.read_text()}devices=0\n")
    mark = "touch {0}.up; while [ ! -e {0}.end ]; do sleep 0.05; done"
    runs = []
    for name in ("a", "b"):
        runs.append(cluster.start("--queue", "--nodes", "1", "--", "sh", "-c", mark.format(tmp_path / name)))
        appears(tmp_path / f"{name}.up")
    waiting = cluster.start("--queue", "--nodes", "1", "--", "true")
    says(waiting, "waiting for any 1 of n[1-2]; n1: device 0, run ")
    leaver = cluster.start("--queue", "--nodes", "2", "--", "true")
    says(leaver, "waiting for n1: device 0, run ")
    listed = json.loads(cluster.run("ps", "--json").stdout)["runs"]
    (left,) = [each["run"] for each in listed if each["status"] == "waiting" and each["hosts"] == ["n1", "n2"]]
    assert "interrupted before any rank was started" in cluster.run("stop", left, code=ExitCode.DONE).stderr
    ended(leaver, code=ExitCode.INTERRUPTED)
    (tmp_path / "b.end").touch()
    ended(runs[1], code=ExitCode.DONE)
    ended(waiting, code=ExitCode.DONE)
    (tmp_path / "a.end").touch()
    ended(runs[0], code=ExitCode.DONE)
    found = (cluster.state / "pylaunch" / "runs").glob("*/plan.json")
    plans = sorted((each for each in found if each.parent.name != left), key=lambda path: path.stat().st_ctime)
    hosts = [json.loads(path.read_text())["plan"]["nodes"][0]["host"]["name"] for path in plans]
    assert hosts == ["n1", "n2", "n2"]


async def chosen(
    cluster: DirectoryCluster,
    nodes: int,
    report: Callable[[tuple[str, ...]], None] = lambda _: None,
) -> list[str]:
    """Wait in the queue of the hosts of `cluster`, whose Python each test replaces; return those of the start."""
    hosts = tuple(
        Host(
            name, "127.0.0.1", connection=Connection.LOCAL, devices=(0,),
            agent_python=str(node.path / "python3"), node_root=str(node.path / "root"),
        )
        for name, node in cluster.nodes.items()
    )  # fmt: skip
    plan = plan_run(Cluster(hosts), JobSpec(("a",), Framework.COMMAND, "/", nodes=nodes), "7f3a7f3a")
    turn = Turn().among(Cluster(hosts), plan)
    return [host.name for host in await queue.free_hosts(turn, plan, report)]


def test_a_host_that_does_not_answer_is_left_out_where_others_are_free_and_refused_where_it_is_needed(
    directories: Callable[..., DirectoryCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = directories("n1", "n2")
    (cluster.nodes["n1"].path / "python3").write_text("#!/bin/sh\nexec sleep 600\n")
    monkeypatch.setattr(queue, "ANSWERS_S", 6.0)
    assert asyncio.run(chosen(cluster, 1)) == ["n2"]
    monkeypatch.setattr(queue, "ANSWERS_S", 1.0)
    with pytest.raises(ClusterNotReadyError, match="no answer within 1 s"):
        asyncio.run(chosen(cluster, 2))


def test_a_start_that_waits_says_who_holds_what_and_asks_again(
    directories: Callable[..., DirectoryCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "FIRST_S", 0.05)
    cluster = directories("n1", "n2")
    (cluster.nodes["n1"].path / "python3").write_text("#!/bin/sh\necho no such file >&2\nexit 3\n")
    lease = leases.take(leases.device_name(0, str(cluster.nodes["n2"].path / "root"), default_root()))
    assert isinstance(lease, socket.socket)
    reported: list[tuple[str, ...]] = []

    def report(blocked_by: tuple[str, ...]) -> None:
        reported.append(blocked_by)
        lease.close()

    with lease:
        assert asyncio.run(chosen(cluster, 1, report)) == ["n2"]
    (lines,) = reported
    assert lines[0] == "any 1 of n[1-2]"
    assert sorted(each.partition(" of ")[0] for each in lines[1:]) == [
        "n1: the probe failed (exit code 3): no such file",
        f"n2: device 0, pid {os.getpid()}",
    ]
