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


def tree(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def test_the_tightest_limit_along_cgroups_of_version_2_counts(tmp_path: Path) -> None:
    root = tree(tmp_path, {
        "user.slice/memory.max": "max\n", "user.slice/pids.max": "30000\n", "user.slice/pids.current": "29000\n",
        "user.slice/user-0.slice/memory.max": "4294967296\n", "user.slice/user-0.slice/memory.current": "1024\n",
        "user.slice/user-0.slice/pids.max": "20000\n",
        "user.slice/user-0.slice/pids.current": "10\n",
    })  # fmt: skip
    found = readers.tightest("0::/user.slice/user-0.slice\n", root)
    assert found["memory"] == {"limit": 4294967296, "used": 1024, "cgroup": f"{root}/user.slice/user-0.slice"}
    assert found["processes"] == {"limit": 30000, "used": 29000, "cgroup": f"{root}/user.slice"}


def test_cgroups_of_version_1_are_read_and_their_number_for_no_limit_is_none(tmp_path: Path) -> None:
    root = tree(tmp_path, {
        "memory/docker/memory.limit_in_bytes": "1073741824\n", "memory/docker/memory.usage_in_bytes": "5\n",
        "memory/memory.limit_in_bytes": "9223372036854771712\n", "pids/docker/pids.max": "max\n",
    })  # fmt: skip
    found = readers.tightest("4:memory:/docker\n2:pids:/docker\n", root)
    assert found["memory"] is not None
    assert found["memory"]["limit"] == 1 << 30
    assert found["processes"] is None
