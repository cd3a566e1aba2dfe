"""The agent's archive is compressed once, and cached for later starts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from pylaunch.runs.prepare import archive
from pylaunch.store.paths import cache_directory


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Build an archive of few modules: to compress the whole agent takes long."""
    monkeypatch.setattr(archive, "_modules", lambda directory, name: {f"{name}/__main__.py": b"'Words.'\n"}.items())
    archive.build.cache_clear()
    yield
    archive.build.cache_clear()


def built() -> archive.AgentArchive:
    """Return the archive as another process builds it."""
    archive.build.cache_clear()
    return archive.build()


def cached() -> list[Path]:
    return sorted((cache_directory() / "agents").iterdir())


def never(_files: object) -> NoReturn:
    raise AssertionError("compressed again")


def test_a_later_start_does_not_compress_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = built()
    monkeypatch.setattr(archive, "_packed", never)
    assert built() == first


def test_another_source_is_another_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    first = built()
    monkeypatch.setattr(archive, "PACKAGE", archive.PACKAGE + b"# changed\n")
    second = built()
    assert second.version != first.version
    assert len(cached()) == 2


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 300_000])
def test_a_damaged_file_is_replaced(damage: bytes) -> None:
    first = built()
    (file,) = cached()
    whole = file.read_bytes()
    file.write_bytes(damage)
    assert built() == first
    assert file.read_bytes() == whole


def test_the_cache_works_for_users_whose_files_their_group_can_write(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o002)
    try:
        first = built()
    finally:
        os.umask(before)
    monkeypatch.setattr(archive, "_packed", never)
    assert built() == first


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_is_not_used(mode: int) -> None:
    """Whoever writes it can give it the right hash, and it runs on all nodes."""
    first = built()
    (file,) = cached()
    planted = b"planted"
    file.write_bytes(hashlib.sha256(planted).digest() + planted)
    file.chmod(mode)
    assert built() == first


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    first = built()
    (file,) = cached()
    planted = tmp_path / "planted"
    planted.write_bytes(hashlib.sha256(b"planted").digest() + b"planted")
    file.unlink()
    file.symlink_to(planted)
    assert built() == first


def test_a_start_without_a_cache_builds_it() -> None:
    cache_directory().parent.mkdir(parents=True, exist_ok=True)
    cache_directory().touch()
    assert built().data


def test_old_archives_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(archive.KEPT + 2):
        monkeypatch.setattr(archive, "PACKAGE", b"# %d\n" % number)
        built()
    assert len(cached()) == archive.KEPT
