"""A daemon may start pylaunch with its standard streams closed."""

import subprocess
import sys
from pathlib import Path

import pytest

PYLAUNCH = Path(sys.executable).with_name("pylaunch")
LOG = "RuntimeError: CUDA error: out of memory\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_log_is_explained_without_a_stream(closed: str, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(LOG)
    command = ["sh", "-c", f'exec "$0" explain run.log {closed}', str(PYLAUNCH)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    shown = [text.partition(":")[0] for text in (ended.stdout, ended.stderr) if text]
    assert ended.returncode == 0
    assert shown == [
        text
        for text, stream in (("out-of-memory/gpu-memory-foreign", ">&-"), ("hint", "2>&-"))
        if stream not in closed.split()
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["run.log"]
    assert (tmp_path / "run.log").read_text() == LOG
