"""The search of `fetch` on a node."""

import json
from pathlib import Path

import pytest

from pylaunch.agent.piped import run_files


def test_a_link_to_its_own_directory_lists_no_file_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").touch()
    (tmp_path / "again").symlink_to(".")
    run_files.list_files(("", "", str(tmp_path)), ["**/*.json"], 10)
    assert [each["path"] for each in json.loads(capsys.readouterr().out)["files"]] == ["a.json"]


def test_a_search_to_its_end_is_not_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").touch()
    for most, is_cut in ((10, False), (0, True)):
        run_files.list_files(("", "", str(tmp_path)), ["*"], most)
        assert json.loads(capsys.readouterr().out)["is_cut"] is is_cut
