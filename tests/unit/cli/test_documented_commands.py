"""Every command line in a block of README.md and of the guides is one that pylaunch accepts.

Those of `help`, --help and --list run. All others are only parsed: verb, options, values and arguments. Those of
README.md run in tests/lab/test_readme.py, and tests/starts/test_documented_commands.py plans starts and renders files.
"""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from pylaunch.cli import main
from pylaunch.errors import ExitCode
from tests.documented_commands import DocumentedCommand, documented_commands

RUN = {"help", "--help", "--list"}


@pytest.mark.parametrize("command", documented_commands(), ids=str)
def test_a_command_of_the_documentation_is_accepted(
    command: DocumentedCommand, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "before.json").touch()
    (tmp_path / "examples").mkdir()
    if RUN.isdisjoint(command.words):
        monkeypatch.setattr(click.Command, "invoke", lambda self, context: None)  # Groups parse on, and nothing runs.
    assert main.run(command.words) == ExitCode.DONE, capsys.readouterr().err


def test_commands_are_found() -> None:
    found = documented_commands()
    assert len(found) > 150
    assert {"start", "lab", "render", "bench", "stacks", "env"} <= {each.verb for each in found}
