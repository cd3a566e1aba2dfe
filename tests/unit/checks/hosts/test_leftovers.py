from typing import Any

import pytest

from pylaunch.checks.hosts import leftovers
from pylaunch.checks.survey import Wanted
from pylaunch.model.diagnosis.finding import Severity
from tests.unit.checks.occupancy.test_processes import process
from tests.unit.checks.surveys import alike, findings

HEALTHY: dict[str, Any] = {
    "occupants.processes": {"uid": 1000, "processes": [], "listeners": [], "unseen": []},
    "lease.holders": {"devices": {}, "ports": {}},
}


def left(**facts: Any) -> dict[str, Any]:
    row = process(pid=7, parent=1, rank=True, **facts)
    return {"occupants.processes": {**HEALTHY["occupants.processes"], "processes": [row]}}


def test_a_host_without_leftovers_is_no_finding() -> None:
    assert findings(leftovers.CHECKS, alike(HEALTHY)) == []


HOLDER = {
    "run": "7f3a", "user": "ml", "since": 1e9, "is_ours": True, "words": "run 7f3a of ml since 10:00",
}  # fmt: skip


@pytest.mark.parametrize(
    ("odd", "check", "severity", "fix"),
    [
        (left(run="7f3a"), "leftovers.processes", Severity.WARN,
         "the next start on n2 ends them; now: pylaunch stop 7f3a"),
        (left(ports=[29500]), "leftovers.processes", Severity.FAIL, "pylaunch clean --yes --limit n2"),
        (left(), "leftovers.processes", Severity.WARN, "pylaunch clean --yes --limit n2"),
        ({"lease.holders": {"devices": {"1": HOLDER}, "ports": {}}},
         "leftovers.leases", Severity.FAIL, "pylaunch stop 7f3a, or wait for its end"),
    ],
)  # fmt: skip
def test_leftovers_are_reported_with_the_command_that_removes_them(
    odd: dict[str, Any], check: str, severity: Severity, fix: str
) -> None:
    (finding,) = findings(leftovers.CHECKS, alike(HEALTHY, n2=odd), Wanted(devices={"n2": (0, 1)}))
    assert (finding.check, finding.severity, finding.hosts, finding.fix) == (check, severity, ("n2",), fix)
