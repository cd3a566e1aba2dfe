"""Findings about clocks, names and connections to hosts."""

from dataclasses import replace

import pytest

from pylaunch.checks import mesh
from pylaunch.checks.hosts import host, reach
from pylaunch.model.cluster import Cluster
from pylaunch.model.diagnosis.finding import Severity
from pylaunch.probe.ask import Unreachable
from tests.unit.checks.network_surveys import CLUSTER, found, readings, survey

CHECKS = (*host.CLOCK_CHECKS, *reach.CHECKS)


def offset(seconds: float, uncertainty: float = 0.001) -> dict[str, object]:
    return {mesh.OFFSET: {"seconds": seconds, "uncertainty": uncertainty}}


def test_healthy_hosts_have_no_findings() -> None:
    assert found(survey(), CHECKS) == []


def test_a_clock_far_ahead_fails_on_its_host_alone() -> None:
    (finding,) = found(survey(n2=offset(90.0)), CHECKS)
    assert (finding.severity, finding.hosts, finding.role) == (Severity.FAIL, ("n2",), "time_sync")
    assert finding.text == "its clock is 90.0 s ahead of the others, ± 1.0 ms"


def test_a_controller_with_a_wrong_clock_makes_no_host_wrong() -> None:
    assert found(survey(n1=offset(50), n2=offset(50), n3=offset(50)), CHECKS) == []


@pytest.mark.parametrize(
    ("seconds", "uncertainty", "severity"),
    [
        (0.09, 0.001, None),
        (0.2, 0.001, Severity.WARN),
        (0.2, 0.15, Severity.UNKNOWN),
        (6.0, 0.5, Severity.FAIL),
        (6.0, 2.0, Severity.WARN),
        (0.0, 0.4, Severity.UNKNOWN),
    ],
)
def test_the_severity_of_an_offset_allows_for_its_uncertainty(
    seconds: float, uncertainty: float, severity: Severity | None
) -> None:
    findings = found(survey(n3=offset(seconds, uncertainty)), CHECKS)
    assert [finding.severity for finding in findings] == ([] if severity is None else [severity])


def test_an_unreachable_host_is_reported_with_evidence() -> None:
    why = Unreachable("ssh n2: no SSH server answers", "start sshd on n2", ("tcp: port 22: Connection refused",))
    looks = {name: look for name, look in survey().looks.items() if name != "n2"}
    (finding,) = found(replace(survey(), looks=looks, unreachable={"n2": why}), CHECKS)
    assert (finding.check, finding.severity, finding.hosts) == ("reach.host", Severity.FAIL, ("n2",))
    assert (finding.text, finding.fix, finding.evidence) == (why.reason, why.hint, why.evidence)


def test_hosts_with_the_same_error_are_one_finding_with_the_steps_of_the_first() -> None:
    whys = {
        name: Unreachable(
            f"ssh {CLUSTER[name].address}: SSH authentication refused",
            f"try it by hand: ssh -- {CLUSTER[name].address}",
            (
                f"tcp: {CLUSTER[name].address} port 22 accepts connections, after {delay} ms",
                "login: no key",
            ),
        )
        for name, delay in (("n1", "0.2"), ("n3", "0.4"))
    }
    silent = Unreachable("no end after 60 s", "look at n2")
    (first, second) = found(replace(survey(), looks={}, unreachable={**whys, "n2": silent}), CHECKS)
    assert (first.hosts, first.text) == (("n1", "n3"), "ssh 10.0.0.[1,3]: SSH authentication refused")
    assert first.fix == "n[1,3]: try it by hand: ssh -- 10.0.0.1"
    assert first.evidence == (
        "n1: tcp: 10.0.0.1 port 22 accepts connections, after 0.2 ms", "login: no key",
    )  # fmt: skip
    assert (second.hosts, second.text, second.fix) == (("n2",), "no end after 60 s", "look at n2")


def test_machines_with_one_name_are_found_and_hosts_that_are_one_machine_are_not() -> None:
    same = {"reach.identity": {**readings("n3")["reach.identity"], "hostname": "n1"}}
    (finding,) = found(survey(n3=same), CHECKS)
    assert (finding.check, finding.hosts) == ("reach.hostname", ("n1", "n3"))
    one_machine = {"reach.identity": {**same["reach.identity"], "network": "boot n1"}}
    assert found(survey(n3=one_machine), CHECKS) == []


def names(host: str, **resolved: list[str] | None) -> dict[str, object]:
    reading = readings(host)["reach.names"]
    return {"reach.names": {**reading, "addresses": {**reading["addresses"], **resolved}}}


def test_a_wrong_address_of_a_peer_is_found_where_it_is() -> None:
    (finding,) = found(survey(n1=names("n1", n2=["10.99.0.9"])), CHECKS)
    assert (finding.severity, finding.hosts) == (Severity.WARN, ("n1",))
    assert finding.text == "n2 resolves to 10.99.0.9 here, and n2 has 10.0.0.2"


def test_a_wrong_address_fails_when_ranks_connect_by_that_name() -> None:
    hosts = (CLUSTER.hosts[0], replace(CLUSTER.hosts[1], address="n2"), CLUSTER.hosts[2])
    (finding,) = found(survey(Cluster(hosts), n1=names("n1", n2=["127.0.0.1"])), reach.CHECKS)
    assert (finding.severity, finding.hosts) == (Severity.FAIL, ("n1",))
    (finding,) = found(survey(Cluster(hosts), n3=names("n3", n2=None)), reach.CHECKS)
    assert "does not resolve here" in finding.text


def test_an_own_name_on_the_loopback_fails_where_ranks_listen_at_it_as_a_start_refuses_it() -> None:
    before = survey(n2=names("n2", n2=["127.0.1.1"]))
    wanted = replace(before.wanted, listen_by_name=frozenset(("n1", "n2")))
    (finding,) = found(replace(before, wanted=wanted), CHECKS)
    assert (finding.severity, finding.hosts, finding.role) == (Severity.FAIL, ("n2",), "host_baseline")
    assert "ranks of JAX on CPUs listen there" in finding.text


def test_a_python_that_is_too_old_is_reported() -> None:
    old = {"reach.identity": {**readings("n1")["reach.identity"], "python": "3.6.8"}}
    (finding,) = found(survey(n1=old), CHECKS)
    assert finding.severity is Severity.FAIL
