"""Hosts that are named on the command line."""

from pathlib import Path

import pytest

from pylaunch.inventory.host_list import is_host_list


def test_a_file_with_a_comma_in_its_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_host_list(Path("a,b"))

    (tmp_path / "a,b").touch()

    assert not is_host_list(Path("a,b"))
    assert not is_host_list(Path("inventories/a,b"))
