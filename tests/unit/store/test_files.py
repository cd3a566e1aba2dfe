"""Files that are replaced whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.runs.sync.tree import read_tree
from pylaunch.store.files import new_file, output_file, write_whole


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    path.write_text("old")
    write_whole(path, b"new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_replaced_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(path, b"new")
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_written_for_its_user_alone(tmp_path: Path) -> None:
    with new_file(tmp_path / "a") as out:
        out.write(b"content")
    assert (tmp_path / "a").read_bytes() == b"content"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_file_that_exists_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")
    with pytest.raises(UsageError, match="exists already"), new_file(tmp_path / "a") as out:
        out.write(b"after")
    assert (tmp_path / "a").read_bytes() == b"before"


def test_nothing_stays_of_a_file_that_a_full_disk_or_an_interrupt_cut_off(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a: cannot be written: No space left on device"), new_file(tmp_path / "a"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(KeyboardInterrupt), new_file(tmp_path / "b"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_files_about_runs_are_not_shipped_with_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    report = output_file("pylaunch-7f3a.html")
    report.write_text("a report")
    assert output_file("pylaunch-7f3b.html").parent == report.parent == tmp_path / "pylaunch-out"
    tree = read_tree(tmp_path)
    assert [file.path for file in tree.manifest.files] == ["train.py"]
    assert tree.ignored == ()
    assert (report.parent / ".gitignore").read_text() == "*\n"


def test_a_file_in_the_place_of_the_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pylaunch-out").touch()
    with pytest.raises(UsageError, match=r"pylaunch-out: cannot be written: File exists"):
        output_file("pylaunch-7f3a.html")
