from typing import Any

import pytest

from pylaunch.checks.hosts import limits
from pylaunch.checks.survey import Wanted
from pylaunch.model.diagnosis.finding import Severity
from tests.unit.checks.devices import PORT
from tests.unit.checks.surveys import alike, findings

MIB = 1 << 20


def limit(**soft: int | None) -> dict[str, Any]:
    values = {"open_files": 1024, "locked_memory": 8 * MIB, "processes": 90000, **soft}
    return {"host.limits": {name.replace("_", " "): {"soft": each} for name, each in values.items()}}


HEALTHY = limit()
ON_GPUS = Wanted(devices={"n1": (0, 1), "n2": (0, 1), "n3": (0, 1)})


def test_usual_limits_are_no_finding() -> None:
    assert findings(limits.CHECKS, alike(HEALTHY)) == []


@pytest.mark.parametrize(
    ("odd", "wanted", "check", "severity"),
    [
        (limit(open_files=256), Wanted(), "limits.files", Severity.FAIL),
        (limit(locked_memory=64 << 10), Wanted(), "limits.locked_memory", Severity.WARN),
        (limit(locked_memory=16 * MIB), Wanted(infiniband=True), "limits.locked_memory", Severity.FAIL),
        ({**limit(), "infiniband.ports": [PORT]}, Wanted(), "limits.locked_memory", Severity.FAIL),
        (limit(processes=500), Wanted(), "limits.processes", Severity.FAIL),
    ],
)  # fmt: skip
def test_one_host_with_lower_limits_is_reported_once_by_the_right_check(
    odd: dict[str, Any], wanted: Wanted, check: str, severity: Severity
) -> None:
    usual = limit(locked_memory=None) if wanted.infiniband else {}
    (finding,) = findings(limits.CHECKS, alike({**HEALTHY, **usual}, n2=odd), wanted)
    assert (finding.check, finding.severity, finding.hosts) == (check, severity, ("n2",))


def test_nccl_wants_more_files_than_a_cpu_job() -> None:
    found = findings(limits.CHECKS, alike(HEALTHY), ON_GPUS)
    assert [(each.check, each.severity) for each in found] == [("limits.files", Severity.WARN)]
    assert found[0].hosts == ("n1", "n2", "n3")
