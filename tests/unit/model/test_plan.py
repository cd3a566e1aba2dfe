import pytest

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run, replan

CLUSTER = Cluster(
    (
        Host("n1", "10.0.0.1", devices=(0, 1)),
        Host("n2", "10.0.0.2", devices=(4, 5, 6, 7)),
        Host("n3", "10.0.0.3"),
    )
)


def job(**changes: object) -> JobSpec:
    asked = {"command": ("train.py",), "framework": Framework.TORCHRUN, "workdir": "/home/ml", **changes}
    return JobSpec(**asked)  # type: ignore[arg-type]


def test_auto_gives_one_rank_per_device_and_one_where_there_are_none() -> None:
    plan = plan_run(CLUSTER, job(), "7f3a9c01")
    assert [[rank.rank for rank in node.ranks] for node in plan.nodes] == [[0, 1], [2, 3, 4, 5], [6]]
    assert plan.world_size == 7


def test_fewer_ranks_than_devices_take_the_first_devices() -> None:
    plan = plan_run(CLUSTER, job(ranks_per_node=2), "7f3a9c01")
    assert [node.devices for node in plan.nodes] == [(0, 1), (4, 5), ()]


def test_more_ranks_than_devices_is_refused_with_the_hosts_and_the_number_that_fits() -> None:
    with pytest.raises(UsageError, match=r"--nproc-per-node 3 is more than the devices of n1") as caught:
        plan_run(CLUSTER, job(ranks_per_node=3), "7f3a9c01")
    assert caught.value.evidence == ("n1: 2 (0,1)",)
    assert caught.value.hint is not None
    assert "--nproc-per-node 2" in caught.value.hint


def test_a_number_of_nodes_that_the_inventory_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--nodes 4: the inventory has 3 hosts \(n\[1-3\]\)"):
        plan_run(CLUSTER, job(nodes=4), "7f3a9c01")


def test_spares_are_the_hosts_after_the_nodes() -> None:
    plan = plan_run(CLUSTER, job(spares=1, max_restarts=1), "7f3a9c01")
    assert [node.host.name for node in plan.nodes] == ["n1", "n2"]
    assert [host.name for host in plan.spares] == ["n3"]
    first = plan_run(CLUSTER, job(nodes=1, spares=1, max_restarts=1), "7f3a9c01")
    assert [host.name for host in first.spares] == ["n2"]


def test_the_next_attempt_is_placed_on_the_hosts_that_it_gets() -> None:
    plan = plan_run(CLUSTER, job(spares=1, max_restarts=3), "7f3a9c01")
    again = replan(plan, ("n3", "n2"))
    assert (again.run, again.restart) == ("7f3a9c01.1", 1)
    assert [[rank.rank for rank in node.ranks] for node in again.nodes] == [[0], [1, 2, 3, 4]]
    assert again.coordinator.host.name == "n3"
    assert [host.name for host in again.spares] == ["n1"]
    assert replan(again, ("n1",)).run == "7f3a9c01.2"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"spares": 3, "max_restarts": 1}, "--nodes 1 and --spares 3 need 4 hosts, and the inventory has 3"),
        ({"nodes": 3, "spares": 1, "max_restarts": 1}, "--nodes 3 and --spares 1 need 4 hosts"),
        ({"min_nodes": 4, "max_restarts": 1}, "--min-nodes 4: expected 1 … 3"),
    ],
)
def test_what_a_restart_may_do_must_fit_the_cluster(changes: dict[str, int], complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan_run(CLUSTER, job(**changes), "7f3a9c01")
    assert complaint in refused.value.message
