"""`pylaunch init` contacts no host when its words or its file are wrong."""

import os
import subprocess
import sys
from pathlib import Path

from pylaunch.errors import ExitCode


def test_nothing_is_replaced_and_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    inventory = tmp_path / "cluster.ini"
    inventory.write_text("mine\n")
    refused = subprocess.run(
        [sys.executable, "-m", "pylaunch", "init", "gpu[01-", "n1:99999"],
        cwd=tmp_path, env={**os.environ, "XDG_STATE_HOME": str(tmp_path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert refused.returncode == ExitCode.USAGE
    assert "error: 3 errors, and no host was contacted" in refused.stderr
    for each in ("unbalanced bracket", "a port from 1 to 65535", "cluster.ini exists already"):
        assert each in refused.stderr
    assert inventory.read_text() == "mine\n"
