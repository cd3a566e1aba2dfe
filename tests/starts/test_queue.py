"""Starts that wait in the queue for any of several hosts."""

import json
from collections.abc import Callable
from pathlib import Path

from pylaunch.errors import ExitCode
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
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
    (tmp_path / "b.end").touch()
    ended(runs[1], code=ExitCode.DONE)
    ended(waiting, code=ExitCode.DONE)
    (tmp_path / "a.end").touch()
    ended(runs[0], code=ExitCode.DONE)
    plans = sorted((cluster.state / "pylaunch" / "runs").glob("*/plan.json"), key=lambda path: path.stat().st_ctime)
    hosts = [json.loads(path.read_text())["plan"]["nodes"][0]["host"]["name"] for path in plans]
    assert hosts == ["n1", "n2", "n2"]


def test_a_start_waits_for_its_own_hosts_where_others_do_not_take_their_place() -> None:
    hosts = tuple(Host(f"n{number}", f"10.0.0.{number}", devices=(0,) * (1 + (number > 3))) for number in range(1, 5))
    turn = Turn(0.0, None)

    def candidates(**options: object) -> list[str]:
        job = JobSpec(("a",), Framework.COMMAND, "/", **options)  # type: ignore[arg-type]
        cluster = Cluster(hosts)
        return [host.name for host in turn.among(cluster, plan_run(cluster, job, "7f3a")).hosts]

    assert candidates(nodes=1) == ["n1", "n2", "n3"]
    assert candidates(nodes=3) == candidates(nodes=4) == candidates(nodes=1, max_restarts=1) == []
