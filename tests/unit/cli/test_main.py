"""What a person reads when something goes wrong that no verb has words for."""

from __future__ import annotations

import errno
from typing import NoReturn

import pytest

from pylaunch.cli import main
from pylaunch.errors import ExitCode


def fails_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> int:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr(main.pylaunch, "main", fail)
    return main.run(["ps"])


def test_what_nobody_expects_is_a_bug_with_its_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fails_with(OSError(errno.EIO, "Input/output error"), monkeypatch) == ExitCode.BUG
    assert "Traceback" in capsys.readouterr().err
