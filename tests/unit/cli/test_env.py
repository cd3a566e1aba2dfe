"""Names of environments on the command line of `pylaunch env`."""

from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ExitCode


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["show"], "no environment in {here}/.pylaunch/environments/speech/environment"),
        (["show", "--name", "vision"], "no environment in {here}/.pylaunch/environments/vision/environment"),
        (["show", "--name", "vision"], "hint: pylaunch env lock --name vision requirements.txt"),
        (["show", "--name", "../x"], "--name: expected 1 to 64 letters"),
        (["show", "--name", "vision", "-o", "there"], "--environment cannot be combined with --name"),
        (["lock", "nowhere.txt", "--name", "a/b"], "--name: expected 1 to 64 letters"),
        (["remove", ".."], "NAME: expected 1 to 64 letters"),
        (["remove", "vision", "--yes"], "provision changes machines and needs an inventory"),
    ],
)
def test_a_name_chooses_the_directory_and_is_no_path(
    words: list[str], printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pylaunch.toml").write_text('[env]\nname = "speech"\n')
    assert run(["env", *words]) == ExitCode.USAGE
    assert printed.format(here=tmp_path) in " ".join(capsys.readouterr().err.split())
