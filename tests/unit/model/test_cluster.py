from pylaunch.model.cluster import Cluster, Host

CLUSTER = Cluster((Host("b", "10.0.0.2"), Host("a", "10.0.0.1"), Host("c", "10.0.0.3")), sources=("/srv/cluster.ini",))


def test_a_reduced_cluster_keeps_rank_order_and_sources() -> None:
    reduced = CLUSTER.only(["c", "b"])

    assert (reduced.names, reduced.sources) == (("b", "c"), CLUSTER.sources)


def test_ranks_are_found_at_the_fabric_address_if_there_is_one() -> None:
    assert Host("n1", "10.0.0.1").rank_address == "10.0.0.1"
    assert Host("n1", "10.0.0.1", fabric_address="172.16.0.1").rank_address == "172.16.0.1"


def test_ranks_run_the_provisioned_python_unless_the_host_names_one() -> None:
    assert Host("n1", "n1", env_root="/data/env").rank_python == "/data/env/current/bin/python"
    assert Host("n1", "n1", python="/usr/bin/python3").rank_python == "/usr/bin/python3"
    assert Host("n1", "n1", env_name="vision").rank_python == "/opt/pylaunch/named/vision/bin/python"
    assert Host("n1", "n1", env_name="vision", python="/usr/bin/python3").rank_python == "/usr/bin/python3"
