"""A daemon may start pylaunch with its standard streams closed."""

import subprocess
import sys
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode

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
        text for text, stream in (("several causes", ">&-"), ("hint", "2>&-")) if stream not in closed.split()
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["run.log"]
    assert (tmp_path / "run.log").read_text() == LOG


def test_a_document_that_finds_no_room_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(LOG)
    with Path("/dev/full").open("wb") as full:
        command = [str(PYLAUNCH), "explain", "run.log", "--json"]
        ended = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert ended.returncode == ExitCode.USAGE
    assert ended.stderr.splitlines()[0] == "error: stdout: No space left on device"


def test_a_child_process_has_the_streams_too() -> None:
    program = """
import subprocess
from pylaunch.cli.main import _open_closed_streams
_open_closed_streams()
raise SystemExit(subprocess.call(["sh", "-c", "echo text >&2 && read -r line; test -z \\"$line\\""]))
"""
    words = ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, program]
    assert subprocess.run(words, check=False, timeout=60).returncode == 0
