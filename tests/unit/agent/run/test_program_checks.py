"""A program that cannot be executed is refused with the reason."""

import dataclasses
import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pylaunch.agent.probe.readers.hosts import host
from pylaunch.agent.run import checks
from pylaunch.protocol.node_task import Need
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
    (found,) = checks._programs(asked)
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
    (found,) = checks._programs(task(tmp_path, [str(script)]))
    assert found.message == f"program {script} cannot be executed: {why}"
    script.write_bytes(b"#!\t/bin/sh -e\ntrue\n")
    assert list(checks._programs(task(tmp_path, [str(script)]))) == []


def test_a_stale_file_handle_is_no_directory_that_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, stat = str(tmp_path / "mount"), os.stat

    def stale(path: Any, **how: Any) -> os.stat_result:
        if str(path).startswith(lost):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)
        return stat(path, **how)

    monkeypatch.setattr(os, "stat", stale)
    monkeypatch.setattr(os, "lstat", stale)
    asked = dataclasses.replace(task(tmp_path, ["true"], needs=[Need("train.py", "")]), workdir=lost)
    (found,) = checks.of_programs(asked)
    assert found.message == f"working directory {lost} cannot be reached: Stale file handle"
    assert found.hint.startswith(f"on the node: ls -ld {lost}")
    reading = host.filesystem({"path": lost, "write": True})
    assert (reading["exists"], reading["refused"]) == (False, "Stale file handle")
