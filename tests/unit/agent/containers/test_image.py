"""Identity of an image: what changes it, what does not, and what is no image."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent.containers import image
from pylaunch.agent.shared import rank_files
from pylaunch.base.layout import NodeRoot
from tests.starts.containers import sif_of


def test_the_hash_of_a_file_is_that_of_its_content_and_is_read_again_after_a_change(tmp_path: Path) -> None:
    root = NodeRoot(str(tmp_path))
    one, other = tmp_path / "one.sqsh", tmp_path / "other.sqsh"
    one.write_bytes(b"hsqs" + bytes(100))
    other.write_bytes(b"hsqs" + bytes(100))
    first = image.digest(str(one), root)
    assert first == image.digest(str(other), root) == image.digest(str(one), root)
    one.write_bytes(b"hsqs" + bytes(99) + b"x")
    assert image.digest(str(one), root) != first


def test_a_damaged_memory_of_hashes_is_none(tmp_path: Path) -> None:
    root = NodeRoot(str(tmp_path))
    file = tmp_path / "one.sqsh"
    file.write_bytes(b"hsqs")
    first = image.digest(str(file), root)
    for damage in ("no JSON", '{"images": 3}', '{"images": [3, []]}'):
        (tmp_path / "images.json").write_text(damage)
        assert image.digest(str(file), root) == first


def test_a_directory_is_known_by_names_modes_and_sizes(tmp_path: Path) -> None:
    root, directory = NodeRoot(str(tmp_path)), tmp_path / "image"
    (directory / "usr" / "bin").mkdir(parents=True)
    (directory / "bin").symlink_to("usr/bin")
    (directory / "usr" / "bin" / "sh").write_text("1")
    found = {image.digest(str(directory), root)}
    (directory / "usr" / "bin" / "sh").write_text("2")
    assert found == {image.digest(str(directory), root)}
    for change in (
        lambda: (directory / "usr" / "bin" / "sh").write_text("12"),
        lambda: (directory / "usr" / "bin" / "sh").chmod(0o755),
        lambda: (directory / "sbin").symlink_to("usr/bin"),
        lambda: (directory / "data").mkdir(),
        lambda: (directory / "data").chmod(0o700),
    ):
        change()
        found.add(image.digest(str(directory), root))
    assert len(found) == 6


def test_a_directory_that_is_closed_to_this_user_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, directory = NodeRoot(str(tmp_path)), tmp_path / "image"
    (directory / "root" / "below").mkdir(parents=True)
    scandir = os.scandir

    def closed(path: str) -> Any:
        """Root can read any directory."""
        if str(path).endswith("/root"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    found = image.digest(str(directory), root)
    (directory / "root").chmod(0o700)
    assert image.digest(str(directory), root) != found


def test_a_hash_that_cannot_be_remembered_is_still_the_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "one.sqsh"
    file.write_bytes(b"hsqs")
    before = image.digest(str(file), NodeRoot(str(tmp_path)))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(rank_files, "replace", full)
    (tmp_path / "images.json").unlink()
    assert image.digest(str(file), NodeRoot(str(tmp_path))) == before


@pytest.mark.parametrize(
    ("content", "error", "hint"),
    [
        (b"MZ", "is neither a directory nor a squashfs", "pylaunch help containers"),
        (sif_of(b"MZMZ"), "is neither a directory nor a squashfs, and contains none", "pylaunch help containers"),
        (sif_of(b"hsqs")[:-1], "is a SIF that cannot be mounted: bytes 36864 to 36868 are outside of the file", ""),
        (
            bytes(257) + b"ustar",
            "is a tar archive",
            "apptainer build image.sif docker-archive:",
        ),
        (None, "does not exist", "pylaunch push IMAGE "),
    ],
)
def test_what_is_no_image_is_refused(tmp_path: Path, content: bytes | None, error: str, hint: str) -> None:
    path = tmp_path / "image"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(image.ImageError, match=f"image {path} {error}") as refused:
        image.digest(str(path), NodeRoot(str(tmp_path)))
    assert refused.value.hint.startswith(hint)


def test_the_squashfs_of_a_file_begins_where_its_format_says(tmp_path: Path) -> None:
    for content, place in ((b"hsqs", 0), (sif_of(b"hsqs"), 36864)):
        (tmp_path / "image").write_bytes(content)
        assert image.squashfs_offset(str(tmp_path / "image")) == place
    assert image.squashfs_offset(str(tmp_path)) is None
