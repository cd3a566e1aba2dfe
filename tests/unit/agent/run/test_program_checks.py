"""A program that cannot be executed is refused with the reason."""

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


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"#! \t/no/such\t-u", "the interpreter in its first line, /no/such, does not exist"),
        (b"#!/bin/sh\r", "its lines end as those of Windows do (CR LF)"),
    ],
)
def test_a_script_whose_interpreter_is_not_there_is_refused_before_the_start(
    tmp_path: Path, line: bytes, why: str
) -> None:
    """The kernel reports that the script does not exist, and it does."""
    script = tmp_path / "train.sh"
    script.write_bytes(line + b"\ntrue\n")
    script.chmod(0o755)
    (found,) = program_checks.problems(task(tmp_path, [str(script)]))
    assert found.message == f"program {script} cannot be executed: {why}"
    script.write_bytes(b"#!\t/bin/sh -e\ntrue\n")
    assert list(program_checks.problems(task(tmp_path, [str(script)]))) == []
