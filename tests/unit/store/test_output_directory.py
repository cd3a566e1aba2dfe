"""Reports and archives that the user did not name are in a directory that neither --sync nor git takes along."""

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.runs.sync.tree import Ignored, read_tree
from pylaunch.store.files import output_file


def test_files_about_runs_are_not_shipped_with_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    report = output_file("pylaunch-7f3a.html")
    report.write_text("a report")
    assert output_file("pylaunch-7f3b.html").parent == report.parent == tmp_path / "pylaunch-out"
    tree = read_tree(tmp_path)
    assert [file.path for file in tree.manifest.files] == ["train.py"]
    assert tree.ignored == Ignored()
    assert (report.parent / ".gitignore").read_text() == "*\n"


def test_a_file_in_the_place_of_the_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pylaunch-out").touch()
    with pytest.raises(UsageError, match=r"pylaunch-out: cannot be written: File exists"):
        output_file("pylaunch-7f3a.html")
