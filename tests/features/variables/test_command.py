"""Output of `env lint`. To accept a new one: UPDATE_GOLDEN=1 pytest this file."""

from pathlib import Path

import click.testing
import pytest

from pylaunch.cli.main import pylaunch
from tests.golden.files import golden

LINTED = Path(__file__).parent / "env-lint"


def test_env_lint_prints_each_finding_with_what_to_write_and_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(LINTED)
    result = click.testing.CliRunner().invoke(pylaunch, ["env", "lint", "input.conf"], standalone_mode=False)
    assert result.stdout == golden(LINTED / "output.txt", result.stdout)
    assert result.return_value == 2


def test_env_lint_of_a_clean_file_prints_nothing_and_ends_well(tmp_path: Path) -> None:
    file = tmp_path / "job.env"
    file.write_text("NCCL_DEBUG=WARN\n")
    result = click.testing.CliRunner().invoke(pylaunch, ["env", "lint", str(file)], standalone_mode=False)
    assert (result.stdout, result.return_value) == ("", 0)
