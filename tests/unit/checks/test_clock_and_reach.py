"""Findings about clocks and connections to hosts."""

from dataclasses import replace

import pytest

from pylaunch.checks import mesh
from pylaunch.checks.hosts import host, reach
from pylaunch.model.diagnosis.finding import Severity
from pylaunch.probe.ask import Unreachable
from tests.unit.checks.network_surveys import CLUSTER, found, survey

CHECKS = (*host.CLOCK_CHECKS, *reach.CHECKS)


def offset(seconds: float, uncertainty: float = 0.001) -> dict[str, object]:
    return {mesh.OFFSET: {"seconds": seconds, "uncertainty": uncertainty}}


def test_healthy_hosts_have_no_findings_whatever_the_clock_of_the_controller() -> None:
    assert found(survey(), CHECKS) == []
    assert found(survey(n1=offset(50), n2=offset(50), n3=offset(50)), CHECKS) == []


def test_a_clock_far_ahead_fails_on_its_host_alone() -> None:
    (finding,) = found(survey(n2=offset(90.0)), CHECKS)
    assert (finding.severity, finding.hosts, finding.role) == (Severity.FAIL, ("n2",), "time_sync")
    assert finding.text == "its clock is 90.0 s ahead of the others, ± 1.0 ms"


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


def test_hosts_with_the_same_error_are_one_finding() -> None:
    whys = {
        name: Unreachable(
            f"ssh {CLUSTER[name].address}: SSH authentication refused",
            f"try it by hand: ssh -- {CLUSTER[name].address}",
        )
        for name in ("n1", "n3")
    }
    silent = Unreachable("no end after 60 s", "look at n2")
    (first, second) = found(replace(survey(), looks={}, unreachable={**whys, "n2": silent}), CHECKS)
    assert (first.check, first.severity, first.hosts) == ("reach.host", Severity.FAIL, ("n1", "n3"))
    assert first.text == "ssh 10.0.0.[1,3]: SSH authentication refused"
    assert first.fix == "n[1,3]: try it by hand: ssh -- 10.0.0.1"
    assert (second.hosts, second.text, second.fix) == (("n2",), "no end after 60 s", "look at n2")
