"""Names of the copies on hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylaunch.broadcast.payload import read_payload
from pylaunch.errors import UsageError


def test_a_source_that_is_a_parent_has_the_name_of_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project/sub").mkdir(parents=True)
    (tmp_path / "project/file").write_text("x")
    monkeypatch.chdir(tmp_path / "project/sub")
    for source in ("..", "../sub/.."):
        assert [file.path for file in read_payload([Path(source)], "/data/").files] == ["project/file"]
    with pytest.raises(UsageError, match="/ has no name"):
        read_payload([Path("/")], "/data/")
