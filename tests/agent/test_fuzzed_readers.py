"""Readers of files that ranks write refuse damaged content, or read it, within bounds of memory and time."""

import resource
import subprocess
import sys
from pathlib import Path

MEMORY = 2 << 30
PROCESSOR_S = 120
CONTENTS = 300
"""For each reader; it takes four seconds in all."""


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def test_no_reader_crashes_hangs_or_takes_much_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.agent.fuzzed_readers", str(tmp_path), str(CONTENTS)],
        check=False, capture_output=True, text=True, preexec_fn=_limited,
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["all"]), f"{done.stdout}{done.stderr}"
