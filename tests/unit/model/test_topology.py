from dataclasses import replace

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec, RankOrder
from pylaunch.model.plan import plan_run
from pylaunch.model.topology import by_topology, groups


def hosts(**places: str) -> tuple[Host, ...]:
    return tuple(Host(name, name, topology=tuple(place.split("/")) if place else ()) for name, place in places.items())


def order(**places: str) -> list[str]:
    return [host.name for host in by_topology(hosts(**places))]


def test_hosts_of_a_rack_and_in_it_of_a_switch_are_together_and_the_first_stays_first() -> None:
    assert order(n1="r2/s1", n2="r1/s1", n3="r2/s2", n4="r1/s1", n5="r2/s1") == ["n1", "n5", "n3", "n2", "n4"]


def test_ties_stay_as_the_inventory_has_them() -> None:
    assert order(n3="r1", n1="r1", n2="r1") == ["n3", "n1", "n2"]
    assert order(n1="r10", n2="r2", n3="r10") == ["n1", "n3", "n2"]


def test_the_same_switch_name_in_two_racks_is_two_switches() -> None:
    assert order(n1="r1/s1", n2="r2/s1", n3="r1/s2", n4="r2/s1") == ["n1", "n3", "n2", "n4"]


def test_a_host_with_a_less_exact_location_is_with_its_rack() -> None:
    assert order(n1="r1/s1", n2="r2", n3="r1", n4="r1/s1", n5="r1") == ["n1", "n4", "n3", "n5", "n2"]


def test_hosts_without_a_place_are_named() -> None:
    with pytest.raises(UsageError, match=r"does not say where n\[2-3\] stand$") as caught:
        order(n1="r1", n2="", n3="")
    assert "topology=rack1/switch3" in str(caught.value.hint)
    with pytest.raises(UsageError, match=r"does not say where n2 stands$"):
        order(n1="r1", n2="")


def test_a_plan_takes_nodes_and_spares_in_that_order() -> None:
    cluster = Cluster(hosts(n1="r1", n2="r2", n3="r1", n4="r2"))
    job = JobSpec(("a",), Framework.COMMAND, "/", nodes=2, spares=1, max_restarts=1)
    assert [node.host.name for node in plan_run(cluster, job, "7f3a9c01").nodes] == ["n1", "n2"]
    plan = plan_run(cluster, replace(job, rank_order=RankOrder.TOPOLOGY), "7f3a9c01")
    assert [node.host.name for node in plan.nodes] == ["n1", "n3"]
    assert [node.node_rank for node in plan.nodes] == [0, 1]
    assert [host.name for host in plan.spares] == ["n2"]


def test_places_are_shown_with_their_hosts() -> None:
    shown = groups(by_topology(hosts(n1="r1/s1", n2="r1/s2", n3="r1/s1")))
    assert shown == (("r1/s1", ("n1", "n3")), ("r1/s2", ("n2",)))
