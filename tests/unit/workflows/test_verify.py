"""Missing tools of `pylaunch verify` have a command that installs them for the interpreter that runs it."""

from __future__ import annotations

import importlib.util
import shlex
import sys

import pytest

from pylaunch.errors import UsageError
from pylaunch.workflows import verify


def test_the_hint_installs_the_tools_and_no_foreign_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="not installed: pytest, testinfra") as refused:
        verify._require_tools()
    assert refused.value.hint is not None
    assert shlex.split(refused.value.hint) == [sys.executable, "-m", "pip", "install", "pytest", "pytest-testinfra"]
