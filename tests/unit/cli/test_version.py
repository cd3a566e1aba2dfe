"""`pylaunch version`."""

import platform
from pathlib import Path

import pytest

from pylaunch import __version__
from pylaunch.cli import main
from pylaunch.errors import ExitCode
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process
from pylaunch.transport.process import Completed, ProgramNotFoundError
from tests.json_pages import documented


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def answers(monkeypatch: pytest.MonkeyPatch, stderr: str) -> None:
    def run(argv: Argv, **_: object) -> Completed:
        assert argv == ("ssh", "-V")
        return Completed(argv, 0, "", stderr)

    monkeypatch.setattr(process, "run", run)


def test_versions_are_a_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    answers(monkeypatch, "OpenSSH_9.2p1 Debian-2+deb12u3, OpenSSL 3.0.15 3 Sep 2024\n")
    assert main.run(["version", "--json"]) == ExitCode.DONE
    found = documented(capsys.readouterr().out, "pylaunch version")
    assert (found["pylaunch"], found["python"]) == (__version__, platform.python_version())
    assert found["openssh"] == "OpenSSH_9.2p1 Debian-2+deb12u3"
    assert found["packages"]["ansible-core"].startswith("2.")
    assert found["state"] == str(home / "pylaunch")


def test_a_machine_without_ssh_has_its_other_versions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(argv: Argv, **_: object) -> Completed:
        raise ProgramNotFoundError(argv[0])

    monkeypatch.setattr(process, "run", run)
    assert main.run(["version"]) == ExitCode.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["pylaunch", __version__]
    assert lines[2].split(maxsplit=1) == ["OpenSSH", "not found"]
