"""Hosts that `init` examines."""

from pylaunch.features.init.host_readings import examine, routes
from pylaunch.model.cluster import Cluster


def test_where_no_host_has_a_trusted_key_none_is_examined() -> None:
    assert examine(Cluster(()), ("/usr/bin/python3",), ("/data",)) == ({}, {})
    assert routes(Cluster(())) == {}
