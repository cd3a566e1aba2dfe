"""A program that cannot be executed is refused with the reason."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pylaunch.agent.run import program_checks
from tests.agent.controller import task


@pytest.mark.parametrize(
    ("flags", "reason"),
    [(0, "is not executable"), (os.ST_NOEXEC | os.ST_NOSUID, "is on a file system that is mounted with noexec")],
)
def test_a_mount_with_noexec_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int, reason: str) -> None:
    python = tmp_path / "python"
    python.touch()
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=flags))
    asked = task(tmp_path, [str(python), "train.py"], python=str(python))
    (found,) = program_checks.problems(asked)
    assert (found.code, found.message) == ("not-executable", f"program {python} {reason}")
