"""Guard process of a run of Ansible: it ends ansible-playbook when pylaunch is killed. Standard library only.

    python guard.py DIRECTORY < pipe

One byte on the pipe means that the run ended. End of file without that byte means that pylaunch was killed (SIGKILL,
SIGTERM, SIGHUP of a closed terminal). Without a guard, ansible-playbook would continue to change hosts, because under
ansible-runner it survives the loss of its terminal, and DIRECTORY, which may hold the password for sudo, would remain.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

GRACE_S = 5.0
"""Seconds between SIGTERM, at which ansible-playbook ends its workers, and SIGKILL."""

POLL_S = 0.1


def limit_file(directory: Path) -> Path:
    """Return the path of the host list on the command line of ansible-playbook, which identifies the process."""
    return directory / "limit"


def left_over(directory: Path) -> list[int]:
    """Return the process ids of the ansible-playbook that works in `directory`, and of its workers."""
    word = b"@" + os.fsencode(limit_file(directory))
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if word in words:
            found.append(int(entry.parent.name))
    return found


def end(directory: Path) -> None:
    """End ansible-playbook and its workers, each the leader of a process group, and remove `directory`."""
    _signal(left_over(directory), signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while left_over(directory) and time.monotonic() < deadline:
        time.sleep(POLL_S)  # noqa: TID251 -- the end of a process that is no child cannot be awaited
    _signal(left_over(directory), signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)


if __name__ == "__main__" and not sys.stdin.buffer.read(1):
    end(Path(sys.argv[1]))
