"""The holder of a lock of the package manager is named."""

import subprocess
import sys
from pathlib import Path

from pylaunch.agent.probe.readers.hosts.package_lock import holder

HOLD = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_holder_of_the_package_lock_is_named_while_it_holds_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock-frontend"
    lock.touch()
    assert holder(str(lock)) is None
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    found = holder(str(lock))
    assert found is not None
    assert found.startswith(f"pid {child.pid} (python")
    child.communicate("")
    assert holder(str(lock)) is None
