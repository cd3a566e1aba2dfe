"""Lines that we wrote in the kernel's format, as journalctl and dmesg print them: read, and judged."""

from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent.probe.readers.hosts import kernel as readers
from pylaunch.base import kernel_log
from pylaunch.checks.hosts import host
from pylaunch.model.diagnosis.finding import Severity
from tests.unit.checks.surveys import alike, findings

CASES = Path(__file__).parents[2] / "cases/kernel_logs"
QUIET: dict[str, Any] = {"count": 0, "last": []}
HEALTHY: dict[str, Any] = {
    "kernel.log": {"readable": True, "oom_kills": 0, "killed": QUIET},
}


def log(**odd: Any) -> dict[str, Any]:
    return {"kernel.log": {**HEALTHY["kernel.log"], **odd}}


def lines(age_s: float, text: str) -> dict[str, Any]:
    return {"count": 1, "last": [{"age_s": age_s, "text": text}]}


@pytest.mark.parametrize("name", ["journalctl-short-unix.txt", "dmesg-raw.txt"])
def test_lines_of_both_programs_are_read_with_their_time(name: str) -> None:
    found = readers.timed_lines((CASES / name).read_text(), booted=1_760_000_000.0)
    assert [round(at) for at, _ in found] == [1_760_000_005, 1_760_003_600, 1_760_003_601, 1_760_007_200, 1_760_007_300]
    kinds = [event.kind for _, text in found if (event := kernel_log.parse(text)) is not None]
    assert kinds.count(kernel_log.OOM_KILL) == 2


@pytest.mark.parametrize(
    ("odd", "check", "severity"),
    [
        (log(killed=lines(90, "Out of memory: Killed process 7 (python)")), "kernel.memory_kills", Severity.WARN),
        (log(killed=lines(90000, "Out of memory: Killed process 7"), oom_kills=1), "kernel.memory_kills",
         Severity.NOTE),
        (log(oom_kills=3), "kernel.memory_kills", Severity.NOTE),
    ],
)  # fmt: skip
def test_kernel_events_are_reported_with_their_log_lines(odd: dict[str, Any], check: str, severity: Severity) -> None:
    (finding,) = findings(host.KERNEL_CHECKS, alike(HEALTHY, n2=odd))
    assert (finding.check, finding.severity, finding.hosts) == (check, severity, ("n2",))
    assert bool(finding.evidence) == (severity is Severity.WARN)
