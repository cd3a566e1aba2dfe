"""Files that are replaced whole or not at all."""

from pathlib import Path

import pytest

from pylaunch.store.files import write_whole


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
