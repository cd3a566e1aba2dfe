from typing import Any

import pytest

from pylaunch.checks.hosts import storage
from pylaunch.checks.survey import Wanted
from pylaunch.model.diagnosis.finding import Severity
from pylaunch.probe.answers import Unmeasured
from tests.unit.checks.surveys import alike, findings

WANTED = Wanted(workdir="/w", checkpoint_dir="/c")
GIB = 1 << 30
RUN, TEMPORARY = "host.filesystem#run files", "host.filesystem#temporary files"
WORKDIR, CHECKPOINTS = "host.filesystem#working directory /w", "host.filesystem#checkpoints /c"


def filesystem(mount: str = "/", **odd: Any) -> dict[str, Any]:
    return {
        "asked": "/x", "exists": True, "mount": mount, "size": 100 * GIB,
        "free": 50 * GIB, "inodes": 10**6, "inodes_free": 10**6, "read_only": False, "refused": "",
        **odd,
    }  # fmt: skip


HEALTHY = {
    "host.shm": {"size": 2 * GIB, "free": 2 * GIB},
    RUN: filesystem(),
    TEMPORARY: filesystem(),
    WORKDIR: filesystem("/nfs", read_only=True),
    CHECKPOINTS: filesystem("/c"),
}


def test_healthy_disks_and_a_read_only_working_directory_are_no_finding() -> None:
    assert findings(storage.CHECKS, alike(HEALTHY), WANTED) == []


@pytest.mark.parametrize(
    ("odd", "check", "severity"),
    [
        ({CHECKPOINTS: filesystem("/c", free=1 << 20)}, "storage.room", Severity.FAIL),
        ({CHECKPOINTS: filesystem("/c", free=GIB // 2)}, "storage.room", Severity.WARN),
        ({CHECKPOINTS: filesystem("/c", inodes_free=0)}, "storage.room", Severity.FAIL),
        ({CHECKPOINTS: filesystem("/c", read_only=True, refused="Read-only file system")}, "storage.writable",
         Severity.FAIL),
        ({CHECKPOINTS: filesystem("/c", refused="Permission denied")}, "storage.writable", Severity.FAIL),
        ({CHECKPOINTS: filesystem("/c", free=0, refused="No space left on device")}, "storage.room", Severity.FAIL),
        ({CHECKPOINTS: filesystem("/", exists=False)}, "storage.writable", Severity.WARN),
        ({WORKDIR: filesystem("/", exists=False), RUN: filesystem(exists=False)}, "storage.writable", Severity.FAIL),
        ({"host.shm": {"size": 16 << 20, "free": 16 << 20}}, "storage.shared_memory", Severity.WARN),
        ({"host.shm": {"size": 2 * GIB, "free": 1 << 20}}, "storage.shared_memory", Severity.WARN),
        ({CHECKPOINTS: Unmeasured("no answer within 3 s", silent=True)}, "storage.writable", Severity.FAIL),
        ({CHECKPOINTS: Unmeasured("Permission denied")}, "storage.writable", Severity.UNKNOWN),
    ],
)  # fmt: skip
def test_one_bad_disk_is_reported_once_with_its_host(odd: dict[str, Any], check: str, severity: Severity) -> None:
    (finding,) = findings(storage.CHECKS, alike(HEALTHY, n2=odd), WANTED)
    assert (finding.check, finding.severity, finding.hosts) == (check, severity, ("n2",))


def test_paths_in_commands_are_quoted() -> None:
    wanted = Wanted(workdir="/w", checkpoint_dir="/data/my ckpt")
    (finding,) = findings(storage.CHECKS, alike(HEALTHY, n2={CHECKPOINTS: filesystem("/", exists=False)}), wanted)
    assert finding.fix == "mkdir -p '/data/my ckpt', or mount it"
    stale = {CHECKPOINTS: filesystem("/", exists=False, refused="Stale file handle")}
    (finding,) = findings(storage.CHECKS, alike(HEALTHY, n2=stale), wanted)
    assert finding.text.endswith(" cannot be reached: Stale file handle"), "it may exist"
    assert finding.fix == "on the host: ls -ld '/data/my ckpt'"


def test_a_working_directory_that_is_on_no_host_can_be_taken_along() -> None:
    (finding,) = findings(storage.CHECKS, alike({**HEALTHY, WORKDIR: filesystem("/", exists=False)}), WANTED)
    assert finding.fix.startswith("take the code along with --sync .")
