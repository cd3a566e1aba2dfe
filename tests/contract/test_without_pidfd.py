"""Without what only Linux has, as on macOS, verbs load and the controller starts processes and waits for their end."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """\
import importlib, os, select, signal
del os.pidfd_open, signal.pidfd_send_signal, select.epoll
from pylaunch.cli.main import VERBS
from pylaunch.transport import process
for verb in VERBS.values():
    importlib.import_module(verb.module)
answer = process.run(("sh", "-c", "read word; echo $word; exit 3"), stdin=b"heard\\n", timeout_s=30)
print(answer.returncode, answer.stdout.strip())
"""


def test_a_process_runs_to_its_end_without_pidfd() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["3", "heard"], done.stderr
