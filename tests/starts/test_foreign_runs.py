"""Nodes that lie to the controller: about runs that it does not know, and about those that it does."""

import base64
import json
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from pylaunch import protocol
from pylaunch.model.cluster import Cluster, Host, SshOptions
from pylaunch.model.job import Framework, JobSpec, Sync
from pylaunch.model.node_record import pack
from pylaunch.model.plan import plan_run
from tests.starts.cluster import Directory, DirectoryCluster, appears, ended, says
from tests.waiting import wait_until

AGENT = "0123456789abcdef"
COMMAND = ("--framework", "command", "--workdir", "/")


def forge(node: Directory, directory: str, record: str, run: str) -> None:
    """A run that a rank on `node` forges, with any record."""
    task = protocol.NodeTask(run, "n1", 0, "/", [], {}, [], None, [], [], 1.0, 1, record=record)
    path = node.path / "root" / "runs" / directory
    path.mkdir(parents=True)
    (path / "task.json").write_bytes(protocol.encode(protocol.Prepare(task)))


def whole_plan(host: Host, run: str, agent: str = AGENT) -> str:
    """A record as earlier versions kept it on nodes: everything, how hosts are reached included."""
    sync = Sync(str(Path.home()), "0" * 64, 1, 1)
    job = JobSpec(("sh", "-c", "id"), Framework.COMMAND, "@tree", sync=sync, secrets=("HOME",))
    plan = plan_run(Cluster((host,)), job, "00000000")
    body = {"created_at": 1.0, "agent": agent, "plan": {**msgspec.to_builtins(plan), "run": run}}
    return base64.b64encode(zlib.compress(json.dumps(body).encode())).decode()


def changed(record: str, **changes: Any) -> str:
    body = json.loads(zlib.decompress(base64.b64decode(record)))
    return base64.b64encode(zlib.compress(json.dumps({**body, **changes}).encode())).decode()


def test_a_record_that_a_rank_forged_is_no_order_to_this_machine(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1")
    node, pwned = cluster.nodes["n1"], tmp_path / "pwned"
    proxied = Host("n9", "n9.invalid", ssh=SshOptions(common_args=("-o", f"ProxyCommand=touch {pwned}")))
    forge(node, "deadbeef", whole_plan(proxied, "deadbeef"), "deadbeef")
    forge(node, "deadbee0", whole_plan(proxied, "../../../outside"), "../../../outside")
    unknown = plan_run(Cluster((proxied,)), JobSpec(("sh",), Framework.COMMAND, "/"), "deadbee1")
    smuggled = {"host": "n9", "ranks": 1, "devices": [], **asdict(proxied.ssh), "ssh": asdict(proxied.ssh)}
    forge(node, "deadbee1", changed(pack(unknown, AGENT, 1.0), nodes=[smuggled]), "deadbee1")

    listed = cluster.run("ps", "--all", "--json", "-i", str(cluster.inventory), code=0)
    runs = json.loads(listed.stdout)["runs"]
    assert [(each["run"], each["status"]) for each in runs] == [("deadbee1", "unreachable")]
    status = cluster.run("status", "deadbee1")
    assert "n9: unreachable (not in the inventory, so not connected to)" in status.stdout
    for verb in ("attach", "stop", "logs"):
        refused = cluster.run(verb, "deadbee1", "-i", str(cluster.inventory), code=3)
        assert "n9: not in the inventory, so not connected to" in refused.stderr
    assert not pwned.exists()
    assert sorted(path.name for path in (cluster.state / "pylaunch" / "runs").iterdir()) == ["deadbee1"]
    assert sorted(path.name for path in cluster.state.iterdir()) == ["pylaunch"]


def test_a_flood_of_forged_records_hides_no_run(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> None:
    cluster = directories("n1", "n2")
    there = DirectoryCluster(cluster.inventory, tmp_path / "elsewhere", cluster.nodes)
    ended(there.start("--detach", "--", "sleep", "600"), code=0)
    (run,) = there.outcomes()
    hosts = tuple(Host(f"h{number}", f"h{number}") for number in range(64))
    plan = plan_run(Cluster(hosts), JobSpec(("sh",), Framework.COMMAND, "/", ranks_per_node=4096), "deadbeef")
    flood = changed(pack(plan, AGENT, 1.0), run="deadbeef")
    for number in range(600):
        forge(cluster.nodes["n1"], f"{number:08x}", flood, f"{number:08x}")
    listed = cluster.run("ps", "--all", "--json", "-i", str(cluster.inventory))
    assert [each["run"] for each in json.loads(listed.stdout)["runs"]] == [run]
    assert "note: n1: 600 of its runs are not shown: the records of one node may name 65536 ranks" in listed.stderr
    assert not (cluster.nodes["n1"].path / "root/runs/00000000/agent.lock").exists(), "to look writes nothing"
    third = DirectoryCluster(cluster.inventory, tmp_path / "third", cluster.nodes)
    attached = third.begin("attach", run, "-i", str(cluster.inventory))
    says(attached, "note: n1: 600 of its runs are not shown")
    assert cluster.run("stop", run, "-i", str(cluster.inventory)).returncode == 0
    assert f"run {run} stopped: stopped with pylaunch stop" in ended(attached).stderr


def test_a_run_of_another_controller_can_be_followed_and_stopped_and_not_run_again(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    there = DirectoryCluster(cluster.inventory, tmp_path / "elsewhere", cluster.nodes)
    up = tmp_path / "up"
    ended(there.start("--detach", "--", "sh", "-c", f"touch {up}; exec sleep 600"), code=0)
    appears(up)
    (run,) = there.outcomes()
    again = cluster.run("rerun", run, "-i", str(cluster.inventory), code=2)
    assert f"run {run} was started by another controller, and what nodes say is not run" in again.stderr
    stopped = cluster.run("stop", run)  # Connects with the inventory that `rerun` has read.
    assert stopped.returncode == 0, stopped.stderr
    assert "n[1-2]: clean" in stopped.stderr


def test_a_rank_cannot_make_the_controller_write_elsewhere(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    pwned, logs = tmp_path / "pwned", tmp_path / "logs"
    lies = [protocol.Output(str(pwned), 9, "pwned\n", 1.0), protocol.RankEnd(1, "", 3, None, 0.5, stopped=False)]
    (tmp_path / "lies").write_bytes(b"".join(map(protocol.encode, lies)))
    events = cluster.nodes["n1"].path / "root" / "runs" / "*" / "events.jsonl"
    there = f"until ls {events} >/dev/null 2>&1; do sleep 0.02; done"  # The agent's first event makes it.
    rank = f"echo mine; [ $RANK = 1 ] || {{ {there}; for file in {events}; do cat {tmp_path}/lies >> $file; done; }}"
    ended(cluster.start("--", "sh", "-c", rank), code=0)
    (run,) = cluster.outcomes()
    wait_until(lambda: not cluster.nodes["n1"].agents(), "the agent's end: from then on its file speaks for it")
    again = cluster.run("logs", run, "--save-logs", str(logs), code=0)
    assert "warning: n1 spoke of rank 1, which is not its part of the run; ignored" in again.stderr
    assert not pwned.exists()
    written = {str(path.relative_to(logs)): path.read_text() for path in logs.rglob("*") if path.is_file()}
    assert written == {"n1/0.out": "mine\n", "n2/1.out": "mine\n"}
