"""Errors of the disk of this machine."""

import errno
import os
from pathlib import Path

import pytest

from pylaunch.cli.commands.prepare import check as check_command
from pylaunch.cli.main import run
from pylaunch.errors import ExitCode
from pylaunch.model.cluster import Cluster


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_local_disk_is_reported_with_the_file_and_is_no_bug(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(inventory: Path | None, limit: str | None) -> Cluster:
        raise OSError(number, os.strerror(number), "/tmp/pylaunch-x")

    monkeypatch.setattr(check_command, "hosts_to_ask", full)
    assert run(["check"]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert error.startswith(f"error: /tmp/pylaunch-x: {os.strerror(number)}")
    assert "bug" not in error
    assert "make room there" in error
