from typing import Any

import pytest

from pylaunch.checks.devices import infiniband
from pylaunch.checks.suite import judge
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.diagnosis.finding import Finding, Severity
from tests.unit.checks.devices import PORT, survey

FAIL, WARN = Severity.FAIL, Severity.WARN


def found(seen: Survey) -> tuple[Finding, ...]:
    return judge(seen, infiniband.CHECKS)


def port(**fields: Any) -> dict[str, Any]:
    return {"infiniband.ports": [{**PORT, **fields}]}


def test_healthy_adapters_and_hosts_without_adapters_are_not_mentioned() -> None:
    assert found(survey()) == ()
    nothing = {"infiniband.ports": None}
    assert found(survey(n1=nothing, n2=nothing, n3=nothing)) == ()


def test_a_run_that_wants_infiniband_needs_an_active_port_on_every_host() -> None:
    seen = survey(Wanted(infiniband=True), n1={"infiniband.ports": None}, n2=port(state="DOWN"))
    texts = {
        finding.hosts: (finding.severity, finding.text)
        for finding in found(seen)
        if finding.check == "infiniband.present"
    }
    assert texts == {
        ("n1",): (FAIL, "no InfiniBand or RoCE adapter"),
        ("n2",): (FAIL, "no active port on 1 ports"),
    }


@pytest.mark.parametrize(
    ("fields", "check", "severity", "text"),
    [
        ({"state": "DOWN", "physical_state": "Polling"}, "infiniband.ports", WARN, "mlx5_0 port 1 is DOWN (Polling)"),
        ({"state": "INIT"}, "infiniband.ports", WARN, "waits for a subnet manager"),
        ({"rate_gbps": 200.0}, "infiniband.ports", WARN, "runs at 200 Gb/s, and at 400 on other hosts"),
    ],
)
def test_a_fault_of_a_port_is_reported_for_its_host(
    fields: dict[str, Any], check: str, severity: Severity, text: str
) -> None:
    (finding,) = found(survey(n3=port(**fields)))
    assert (finding.check, finding.severity, finding.hosts) == (check, severity, ("n3",))
    assert text in finding.text
