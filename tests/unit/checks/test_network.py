"""Findings about interfaces and routes between hosts."""

from dataclasses import replace
from typing import Any

import pytest

from pylaunch.checks import mesh
from pylaunch.checks.hosts import network
from pylaunch.model.diagnosis.finding import Severity
from tests.unit.checks.network_surveys import CLUSTER, KINDS, found, interface, readings, survey, with_ends

SILENT = {"end": "silent"}
TO_N1 = (("n2", "n1"), ("n3", "n1"))
TO_N2 = (("n1", "n2"), ("n3", "n2"))
OF_N3 = (("n3", "n1"), ("n3", "n2"))


def test_healthy_hosts_have_no_findings() -> None:
    assert found(survey(), network.CHECKS) == []


def test_a_filtered_rendezvous_port_of_the_first_host_fails() -> None:
    (finding,) = found(with_ends(survey(), TO_N1, SILENT, "rendezvous"), network.CHECKS)
    assert (finding.check, finding.severity, finding.hosts) == ("network.ports", Severity.FAIL, ("n1",))
    assert "rendezvous port 29500 get no answer" in finding.text
    assert finding.role == "firewall"


def test_a_filtered_rendezvous_port_of_another_host_is_a_warning() -> None:
    (finding,) = found(with_ends(survey(), TO_N2, SILENT, "rendezvous"), network.CHECKS)
    assert (finding.severity, finding.hosts) == (Severity.WARN, ("n2",))
    assert "now n1" in finding.text


def test_blocked_outgoing_connections_are_blamed_on_their_source() -> None:
    (finding,) = found(with_ends(survey(), OF_N3, SILENT, *KINDS), network.CHECKS)
    assert finding.hosts == ("n3",)
    assert finding.text.startswith("connections from it to the other hosts' ports, rendezvous (29500) and ephemeral")


@pytest.mark.parametrize(
    ("end", "text", "fix"),
    [
        ({"end": "refused"}, "are refused, though it listens", "open TCP ports"),
        ({"end": "unreachable", "text": "No route to host"}, "fail: No route to host", "open TCP ports"),
        ({"end": "nameless"}, "fail, as its address does not resolve", "an address that all hosts reach: "),
        ({"end": "stalled"}, "full packets do not get through", "ping -M do"),
        (
            {"end": "other", "name": "n3"},
            "are answered by n3: two machines have one address",
            "ip neigh show to 10.0.0.2",
        ),
    ],
)
def test_each_end_of_a_connection_has_its_words_and_its_fix(end: dict[str, str], text: str, fix: str) -> None:
    (finding,) = found(with_ends(survey(), TO_N2, end, *KINDS), network.CHECKS)
    assert (finding.check, finding.severity, finding.hosts) == ("network.ports", Severity.FAIL, ("n2",))
    assert text in finding.text
    assert finding.fix.startswith(fix)


@pytest.mark.parametrize(
    ("taken", "fix"),
    [
        ({"by": "pid 7 (nginx) of root", "run": ""}, "choose another with --port"),
        ({"by": "run 7f3a of ml since 12:00", "run": "7f3a"}, "pylaunch stop 7f3a"),
        ({"by": "run x of ml", "run": "x; reboot"}, "pylaunch stop 'x; reboot'"),
    ],
)
def test_a_taken_rendezvous_port_fails_on_the_first_host_alone(taken: dict[str, str], fix: str) -> None:
    def spoiled(name: str) -> dict[str, Any]:
        return {mesh.MATRIX: {**readings(name)[mesh.MATRIX], "taken": taken}}

    (finding,) = found(survey(n1=spoiled("n1")), network.CHECKS)
    assert (finding.severity, finding.hosts, finding.fix) == (Severity.FAIL, ("n1",), fix)
    assert taken["by"] in finding.text
    assert found(survey(n2=spoiled("n2")), network.CHECKS) == [], "ranks do not meet there"
    anywhere = survey(n1=spoiled("n1"))
    anywhere = replace(anywhere, wanted=replace(anywhere.wanted, any_port=True))
    (finding,) = found(anywhere, network.CHECKS)
    assert finding.severity is Severity.NOTE


def test_an_interface_of_the_inventory_must_be_there() -> None:
    hosts = (CLUSTER.hosts[0], replace(CLUSTER.hosts[1], interface="ib0"), CLUSTER.hosts[2])
    (finding,) = found(survey(replace(CLUSTER, hosts=hosts)), network.CHECKS)
    assert (finding.severity, finding.hosts) == (Severity.FAIL, ("n2",))
    assert finding.text == "the inventory says interface=ib0, and there are eth0, lo"


def test_a_host_without_a_route_to_a_peer_fails() -> None:
    routes = {**readings("n1")["network.routes"], "10.0.0.3": {"why": "10.0.0.3 cannot be reached: no route"}}
    (finding,) = found(survey(n1={"network.routes": routes}), network.CHECKS)
    assert (finding.severity, finding.hosts) == (Severity.FAIL, ("n1",))
    assert finding.text.startswith("no way to n3 (10.0.0.3)")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"speed": 1000}, "speed of the link to the peers: 1000 Mb/s, expected 10000 Mb/s as on n[1,3]"),
        ({"carrier": 0, "state": "down"}, "eth0 has no link (state down)"),
        ({"mtu": 1400}, "MTU of the interface to the peers: 1400, expected 1500 as on n[1,3]"),
    ],
)
def test_a_bad_link_is_found(fields: dict[str, Any], text: str) -> None:
    (finding,) = found(
        survey(n2={"network.interfaces": {"eth0": interface(**fields), "lo": interface()}}), network.CHECKS
    )
    assert finding.hosts == ("n2",)
    assert text in finding.text
