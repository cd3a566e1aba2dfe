"""Names of the copies on hosts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pylaunch.base.layout import NodeRoot
from pylaunch.broadcast.payload import ChangedError, read_payload, stored_content
from pylaunch.errors import UsageError
from pylaunch.model.manifest import File


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


def test_content_for_the_store_has_its_hash_as_its_path_and_must_be_what_was_read_before(tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.write_bytes(b"version 1")
    digest = hashlib.sha256(b"version 1").hexdigest()
    payload = stored_content({source: File("train.py", 0o755, 9, digest)})
    assert [(file.path, file.mode) for file in payload.files] == [
        (NodeRoot("").blob(digest).removeprefix("blobs/"), 0o400)
    ]
    source.write_bytes(b"version 2")
    with pytest.raises(ChangedError):
        stored_content({source: File("train.py", 0o755, 9, digest)})
