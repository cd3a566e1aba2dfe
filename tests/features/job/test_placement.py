import json
from typing import Any

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.job.job_file import JobFile, JobRole
from pylaunch.features.job.placement import Part, environment, placed, places, with_ports
from pylaunch.model.cluster import Cluster, Host


def cluster(number: int, devices: int = 0) -> Cluster:
    return Cluster(
        tuple(Host(f"n{each}", f"10.0.0.{each}", devices=tuple(range(devices))) for each in range(1, number + 1))
    )


def role(name: str, **given: Any) -> JobRole:
    return JobRole(**{"name": name, "program": ("x",), "options": {}, **given})


def parts(there: Cluster, *roles: JobRole) -> tuple[Part, ...]:
    return placed(JobFile("job", roles), there, lambda pattern: pattern.split(","))


def hosts(found: tuple[Part, ...]) -> dict[str, tuple[str, ...]]:
    return {part.name: part.cluster.names for part in found}


def test_roles_take_hosts_in_order_and_one_without_a_number_takes_the_rest() -> None:
    found = parts(cluster(5), role("trainer"), role("rollout", replicas=2, nodes=1))
    assert hosts(found) == {"trainer": ("n3", "n4", "n5"), "rollout.0": ("n1",), "rollout.1": ("n2",)}


def test_too_few_hosts_are_refused_with_the_roles_that_have_the_others() -> None:
    with pytest.raises(UsageError, match=r"needs 2 of the hosts n\[1-3\]: replica 0 needs 2 and finds 1") as caught:
        parts(cluster(3), role("a", nodes=2), role("b", nodes=2))
    assert caught.value.evidence == ("n1: a", "n2: a")
    assert (caught.value.hint or "").startswith("--set b.nodes=1, or shared")


def test_shared_roles_spread_over_hosts_and_divide_the_devices() -> None:
    two = {"nproc_per_node": 2}
    found = parts(
        cluster(2, devices=4),
        role("a", nodes=1, replicas=3, shared=True, options=two), role("b", nodes=1, shared=True, options=two),
    )  # fmt: skip
    assert [(part.name, part.first.name, part.first.devices) for part in found] == [
        ("a.0", "n1", (0, 1)), ("a.1", "n2", (0, 1)), ("a.2", "n1", (2, 3)), ("b", "n2", (2, 3)),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="finds 0"):
        parts(cluster(1, devices=4), role("a", nodes=1, replicas=3, shared=True, options=two))


def test_each_replica_has_a_free_port_of_its_first_host() -> None:
    found = parts(cluster(3), role("a", replicas=2, nodes=1, ports=("http",)), role("b"))
    same = parts(cluster(1), role("a", replicas=2, nodes=1, shared=True, ports=("http",)))
    ports = with_ports(found, {"10.0.0.1": [29500], "10.0.0.2": [29501]})
    assert [dict(part.ports) for part in ports] == [{"http": 29500}, {"http": 29501}, {}]
    assert [dict(part.ports) for part in with_ports(same, {"10.0.0.1": [1, 2]})] == [{"http": 1}, {"http": 2}]
    with pytest.raises(UsageError, match=r"n1 has too few free ports for a\.1"):
        with_ports(same, {"10.0.0.1": [1]})


def test_every_rank_can_find_all_roles() -> None:
    found = with_ports(
        parts(cluster(3), role("rollout", replicas=2, nodes=1, ports=("http",)), role("trainer", nodes=1)),
        {"10.0.0.1": [8000], "10.0.0.2": [8000]},
    )
    values = places(found)
    assert values["roles.rollout.endpoints"] == "10.0.0.1:8000,10.0.0.2:8000"
    assert values["roles.rollout.endpoint.http"] == "10.0.0.1:8000"
    assert (values["roles.trainer.address"], values["roles.trainer.hosts"]) == ("10.0.0.3", "n3")
    variables = environment(found[1], found, "7f3a")
    assert (variables["PYLAUNCH_ROLE"], variables["PYLAUNCH_REPLICA"]) == ("rollout", "1")
    assert json.loads(variables["PYLAUNCH_ROLES"])["trainer"] == {"hosts": ["10.0.0.3"], "ports": {}}
