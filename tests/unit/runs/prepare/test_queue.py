from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.runs.prepare.queue import Turn, words


def test_blocking_runs_are_listed_with_hosts_and_devices_folded() -> None:
    run = "run 7f3a of anna since 12:01"
    devices = (("device 0", run), ("device 1", run), ("device 3", run))
    assert words({"gpu01": (*devices, ("port 29500", run)), "gpu02": devices, "gpu03": devices, "gpu04": ()}) == [
        f"gpu01: devices 0-1,3, port 29500, {run}",
        f"gpu[02-03]: devices 0-1,3, {run}",
    ]


def test_a_start_waits_for_its_own_hosts_where_others_do_not_take_their_place() -> None:
    hosts = tuple(Host(f"n{number}", f"10.0.0.{number}", devices=(0,) * (1 + (number > 3))) for number in range(1, 5))
    turn = Turn()

    def candidates(hosts: tuple[Host, ...] = hosts, **options: object) -> list[str]:
        job = JobSpec(("a",), Framework.COMMAND, "/", **options)  # type: ignore[arg-type]
        cluster = Cluster(hosts)
        return [host.name for host in turn.among(cluster, plan_run(cluster, job, "7f3a")).hosts]

    assert candidates(nodes=1) == ["n1", "n2", "n3"]
    assert candidates(hosts[::-1], nodes=1, ranks_per_node=1) == [], "the others are unlike the host of the plan"
    assert candidates(hosts[1:], nodes=1, ranks_per_node=1) == ["n2", "n3"]
    larger = (hosts[3], Host("n5", "10.0.0.5", devices=(0, 1)))
    assert candidates(larger, nodes=1, ranks_per_node=1) == ["n4", "n5"], "ranks on a part of the devices"
    assert candidates(nodes=3) == candidates(nodes=4) == candidates(nodes=1, max_restarts=1) == []
