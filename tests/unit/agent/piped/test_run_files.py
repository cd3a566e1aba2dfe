"""The search of `fetch` on a node."""

import json
from pathlib import Path

import pytest

from pylaunch.agent.piped import run_files


def test_a_search_in_a_tree_of_links_to_itself_ends_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").touch()
    for name in ("one", "other"):
        (tmp_path / name).symlink_to(".")
    monkeypatch.setattr(run_files, "LOOKS_S", 0.5)
    run_files.list_files(("", "", str(tmp_path)), ["a.json", "**/*.absent"], 10)
    answer = json.loads(capsys.readouterr().out)
    assert [each["path"] for each in answer["files"]] == ["a.json"]
    assert answer["is_cut"] is True


def test_a_search_to_its_end_is_not_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").touch()
    for most, is_cut in ((10, False), (0, True)):
        run_files.list_files(("", "", str(tmp_path)), ["*"], most)
        assert json.loads(capsys.readouterr().out)["is_cut"] is is_cut
