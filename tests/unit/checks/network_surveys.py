"""Surveys of three healthy hosts, to which tests add faults."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pylaunch.checks import mesh
from pylaunch.checks.check import Check
from pylaunch.checks.suite import judge
from pylaunch.checks.survey import Look, Survey, Wanted
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.finding import Finding

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2"), Host("n3", "10.0.0.3")))
PORT = 29500
OK = {"end": "ok"}
KINDS = ("rendezvous", "ephemeral")


def interface(**fields: Any) -> dict[str, Any]:
    return {"mtu": 1500, "carrier": 1, "speed": 10000, "state": "up", **fields}


def readings(name: str) -> dict[str, Any]:
    peers = [host for host in CLUSTER.hosts if host.name != name]
    own = CLUSTER[name].address
    return {
        "network.interfaces": {"eth0": interface(), "lo": interface(mtu=65536, speed=None)},
        "network.routes": {host.address: {"interface": "eth0", "source": own} for host in peers},
        mesh.SHELL: {"noise": [], "seconds": 0.02},
        mesh.OFFSET: {"seconds": 0.0, "uncertainty": 0.001},
        mesh.MATRIX: {
            "ports": dict.fromkeys(KINDS, 40000), "taken": None, "ephemeral_range": [32768, 60999],
            "row": {host.name: {kind: dict(OK) for kind in KINDS} for host in peers},
        },
    }  # fmt: skip


def survey(cluster: Cluster = CLUSTER, **spoiled: Mapping[str, Any]) -> Survey:
    """Return a survey of healthy hosts, except for the given readings by host."""
    wanted = Wanted(port=PORT, peers={host.name: host.rank_address for host in cluster.hosts})
    looks = {host.name: Look({**readings(host.name), **spoiled.get(host.name, {})}) for host in cluster.hosts}
    return Survey(cluster, wanted, looks)


def with_ends(before: Survey, pairs: Iterable[tuple[str, str]], end: Mapping[str, Any], *kinds: str) -> Survey:
    """Return `before` with the result `end` for connections of these pairs on ports of these kinds."""
    looks = dict(before.looks)
    for source, target in pairs:
        matrix = looks[source].readings[mesh.MATRIX]
        row = {**matrix["row"], target: {**matrix["row"][target], **dict.fromkeys(kinds, end)}}
        looks[source] = Look({**looks[source].readings, mesh.MATRIX: {**matrix, "row": row}})
    return replace(before, looks=looks)


def found(survey_: Survey, checks: Iterable[Check]) -> list[Finding]:
    return list(judge(survey_, checks))
