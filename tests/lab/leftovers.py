"""Labs of test runs that were killed: they are named after a process that is gone."""

import fcntl
import os
import re
from pathlib import Path

from lab import lab as labs
from lab import spec


def name_of(process: int, number: int) -> str:
    """Return the name of lab `number` of a process of a test run."""
    return f"test-{process}-{number}"


def own_name(number: int) -> str:
    """Return the name of lab `number` of this process."""
    return name_of(os.getpid(), number)


def remove() -> None:
    """Remove the labs whose process is gone. Processes of one test run do this at the same moment: they take turns."""
    spec.labs_directory().mkdir(parents=True, exist_ok=True)
    with (spec.labs_directory() / ".leftovers-of-tests.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        for name in spec.names():
            owner = re.fullmatch(r"test-(\d+)-\d+", name)
            if owner is not None and not Path("/proc", owner.group(1)).exists():
                labs.down(name)
