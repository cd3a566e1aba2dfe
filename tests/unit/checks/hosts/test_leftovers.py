from typing import Any

import pytest

from pylaunch.checks.hosts import leftovers
from pylaunch.checks.survey import Wanted
from pylaunch.model.diagnosis.finding import Severity
from tests.unit.checks.surveys import alike, findings

HEALTHY: dict[str, Any] = {
    "leftovers.stale": [],
    "lease.holders": {"devices": {}, "ports": {}},
    "leftovers.shared_memory": {"files": [], "bytes": 0},
}


def test_a_host_without_leftovers_is_no_finding() -> None:
    assert findings(leftovers.CHECKS, alike(HEALTHY)) == []


HOLDER = {
    "run": "7f3a", "user": "ml", "since": 1e9, "pid": 7, "is_ours": True, "words": "run 7f3a of ml since 10:00",
}  # fmt: skip


@pytest.mark.parametrize(
    ("odd", "check", "severity", "fix"),
    [
        ({"leftovers.stale": [{"pid": 7, "command": "python train.py", "run": "7f3a", "age_s": 9}]},
         "leftovers.stale_processes", Severity.WARN, "the next start on n2 ends them; now: pylaunch stop 7f3a"),
        ({"lease.holders": {"devices": {"1": HOLDER}, "ports": {}}},
         "leftovers.leases", Severity.FAIL, "pylaunch stop 7f3a, or wait for its end"),
        ({"leftovers.shared_memory": {"files": ["/dev/shm/psm_1 2"], "bytes": 1 << 30}},
         "leftovers.shared_memory", Severity.WARN, "rm '/dev/shm/psm_1 2'"),
    ],
)  # fmt: skip
def test_leftovers_are_reported_with_the_command_that_removes_them(
    odd: dict[str, Any], check: str, severity: Severity, fix: str
) -> None:
    (finding,) = findings(leftovers.CHECKS, alike(HEALTHY, n2=odd), Wanted(devices={"n2": (0, 1)}))
    assert (finding.check, finding.severity, finding.hosts, finding.fix) == (check, severity, ("n2",), fix)
