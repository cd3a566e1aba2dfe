"""The samples of the guide are what `explain` prints."""

import re
from pathlib import Path

import pytest

from pylaunch.cli.main import run

GUIDE = (Path(__file__).parents[3] / "docs/guides/explain.md").read_text()
SAMPLES = {
    "run.log": "RuntimeError: shard 17 is not the one that follows shard 15",
    "stages.log": "AssertionError: 33 layers cannot be split evenly among 8 stages",
    "lists.log": "RuntimeError: shapes of the parameter lists must match",
    "listener.log": "ZorkError: port 7000 is held by another process, so the listener cannot bind it",
}
"""The error with which each log ends."""


@pytest.mark.parametrize("name", SAMPLES)
def test_the_guide_shows_what_is_printed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(f"loading the plan\nbuilding the model\n{SAMPLES[name]}\n")
    assert run(["explain", name]) == 0
    out, hint = capsys.readouterr()
    sample = re.search(rf"^    \$ pylaunch explain {re.escape(name)}\n((?:    .*\n)+)", GUIDE, re.MULTILINE)
    assert sample is not None
    lines = [line.removeprefix("    ") for line in sample[1].splitlines() if not line.startswith("    hint: ")]
    assert out.splitlines()[: len(lines)] == lines
    assert "hint:" not in sample[1] or sample[1].endswith(f"    {hint}")
