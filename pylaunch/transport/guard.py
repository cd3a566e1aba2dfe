"""A program beside every run of Ansible: it ends what is left of one whose pylaunch is gone. Standard library only.

    python guard.py DIRECTORY < pipe

One byte on the pipe says that all ended well. The end of the pipe without it says that pylaunch was killed, which it
cannot tell itself: SIGKILL, SIGTERM, the SIGHUP of a terminal that was closed. ansible-playbook would go on changing
hosts, for ansible-runner lets it ignore the loss of its terminal, and DIRECTORY, which may hold the password for sudo,
would stay.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

GRACE_S = 5.0
"""Between SIGTERM, upon which ansible-playbook ends its workers, and SIGKILL."""

POLL_S = 0.1


def limit_file(directory: Path) -> Path:
    """The list of hosts that ansible-playbook is given; it is on its command line, by which it is known."""
    return directory / "limit"


def left_over(directory: Path) -> list[int]:
    """Process ids of the ansible-playbook that works with `directory`, and of its workers."""
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
    """End ansible-playbook and its workers, each of which leads a process group, and remove `directory`."""
    _tell(left_over(directory), signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while left_over(directory) and time.monotonic() < deadline:
        time.sleep(POLL_S)  # noqa: TID251 -- nothing says that a process which is no child of ours has ended
    _tell(left_over(directory), signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


def _tell(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)


if __name__ == "__main__" and not sys.stdin.buffer.read(1):
    end(Path(sys.argv[1]))
