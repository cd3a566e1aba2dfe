from typing import Any

import pytest

from pylaunch.checks.hosts import host
from pylaunch.model.diagnosis.finding import Severity
from tests.unit.checks.surveys import alike, findings

GIB = 1 << 30


def memory(**odd: int) -> dict[str, Any]:
    return {"host.memory": {"total": 64 * GIB, "available": 60 * GIB, **odd}}


def kernel(**odd: Any) -> dict[str, Any]:
    return {"host.kernel": {"release": "6.1.0-18-amd64", "machine": "x86_64", **odd}}


HEALTHY = {**memory(), **kernel()}


def test_equal_hosts_with_enough_resources_are_no_finding() -> None:
    near = memory(total=63 * GIB)
    assert findings(host.CHECKS, alike(HEALTHY, n1=near, n2=kernel(release="6.1.0-21-amd64"))) == []


@pytest.mark.parametrize(
    ("odd", "check", "severity", "text"),
    [
        (memory(available=1 << 20), "host.memory", Severity.FAIL, "1 MiB of 64 GiB memory available"),
        (kernel(release="5.15.0-100"), "host.kernel", Severity.WARN, "kernel series: 5.15, expected 6.1 as on n[1,3]"),
        (kernel(machine="aarch64"), "host.kernel", Severity.FAIL, "architecture: aarch64"),
    ],
)
def test_a_host_that_differs_is_reported_with_its_value_and_the_expected_one(
    odd: dict[str, Any], check: str, severity: Severity, text: str
) -> None:
    (finding,) = findings(host.CHECKS, alike(HEALTHY, n2=odd))
    assert (finding.check, finding.severity, finding.hosts) == (check, severity, ("n2",))
    assert text in finding.text
