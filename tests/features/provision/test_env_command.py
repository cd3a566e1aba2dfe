"""`pylaunch env` uses the environment of the project."""

from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ExitCode


def test_the_name_in_the_settings_chooses_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pylaunch.toml").write_text('[env]\nname = "speech"\n')
    assert run(["env", "show"]) == ExitCode.USAGE
    assert f"no environment in {tmp_path}/.pylaunch/environments/speech/environment" in capsys.readouterr().err
