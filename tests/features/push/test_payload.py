"""Names of the copies on hosts."""

import errno
import os
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.push.payload import ChangedError, read_payload


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


def test_a_file_has_changed_only_where_its_time_or_size_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"version 1")
    payload = read_payload([tmp_path / "a", tmp_path / "b"], "/data/")
    before = (tmp_path / "a").stat().st_mtime_ns
    (tmp_path / "a").write_bytes(b"version 2")
    os.utime(tmp_path / "a", ns=(before, before))
    with pytest.raises(UsageError, match=r"/a or .*/b has other bytes when it is read again.*does its disk fail"):
        payload.read(0)
    os.utime(tmp_path / "a")
    with pytest.raises(ChangedError, match="/a changed while it was being pushed"):
        payload.read(0)
    (tmp_path / "b").unlink()
    with pytest.raises(ChangedError, match="/b changed"):
        payload.read(0)

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "open", fails)
    with pytest.raises(UsageError, match="/a: Input/output error"):
        payload.read(0)
    with pytest.raises(UsageError, match="/a: Input/output error"):
        read_payload([tmp_path / "a"], "/data/")
