"""`pylaunch demo`: what it shows is true, and nothing of it is left."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.documents import ROOT
from tests.starts.cluster import ENDS_S
from tests.waiting import wait_until


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody without any file, whose temporary files are in `tmp`."""
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    others = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return {**others, "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}


def files_below(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


def processes_of(directory: Path) -> list[str]:
    """Return the command lines that name `directory`."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_text(errors="replace"))
        except OSError:  # It has ended.
            continue
    return [each for each in commands if str(directory) in each]


def test_the_demo_shows_a_good_end_and_the_rank_that_broke_and_leaves_nothing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pylaunch", "demo"], env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=ENDS_S, check=False,
    )  # fmt: skip
    assert done.returncode == ExitCode.DONE, done.stderr
    fitted = [line for line in done.stdout.splitlines() if " | y = " in line]
    assert sorted(line.split(" ")[0] for line in fitted) == ["n1:0", "n1:1", "n2:2", "n2:3"]
    first, second = done.stderr.split("Now rank 2 on n2 fails")
    assert re.search(r"run \w+ done in .*: 4 ranks on n\[1-2\] exited with code 0", first)
    verdict = re.search(r"^error: run \w+: (.*)$", second, re.MULTILINE)
    assert verdict is not None, second
    assert verdict[1].startswith(
        "rank 2 on n2 exited with code 1: RuntimeError: loss is NaN at step 4; the other 3 ranks"
    )
    assert done.stderr.count("clean (no process, port or device lease of the run is left)") == 2
    record = runpy.run_path(str(ROOT / "scripts/record_demo.py"))
    shown = record["text_of"](record["PICTURE"].read_text(encoding="utf-8"))
    current = {"$ pylaunch demo", *record["messages"](done.stderr)}
    assert set(record["messages"](shown)) == current, "run scripts/record_demo.py"
    assert files_below(tmp_path / "home") + files_below(tmp_path / "tmp") == []
    wait_until(lambda: processes_of(tmp_path / "tmp") == [], "the end of all processes", ENDS_S)
