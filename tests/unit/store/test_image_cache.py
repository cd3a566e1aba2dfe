"""Images that are removed from the cache, and those that stay."""

import fcntl
import os
import time
from pathlib import Path

import pytest

from pylaunch.store.image_cache import UNUSED_S, images_directory, mark_used, remove_unused

OLD, USED = "a" * 64, "b" * 64


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache with two images of long ago, and a file of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    images_directory().mkdir(parents=True)
    for name in (OLD, USED, "mine"):
        for suffix in (".sqsh", ".json"):
            file = (images_directory() / name).with_suffix(suffix)
            file.touch()
            os.utime(file, (0, time.time() - UNUSED_S - 60))
    return images_directory()


def files(cache: Path) -> list[str]:
    return sorted(each.name[:4] for each in cache.iterdir() if each.name != "used.lock")


def test_images_without_a_use_are_removed_and_files_of_the_user_stay(cache: Path) -> None:
    assert mark_used(cache / f"{USED}.sqsh")
    remove_unused()
    assert files(cache) == ["bbbb", "bbbb", "mine", "mine"]
    assert not mark_used(cache / f"{OLD}.sqsh")
    assert not mark_used(cache / "none" / f"{OLD}.sqsh")


def test_an_image_that_another_start_marks_while_others_are_removed_stays(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = fcntl.flock

    def after_another_start(file: object, operation: int) -> None:
        os.utime(cache / f"{USED}.json")
        locked(file, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", after_another_start)
    remove_unused()
    assert files(cache) == ["bbbb", "bbbb", "mine", "mine"]


def test_an_image_in_a_cache_that_cannot_be_written_is_used_nevertheless(cache: Path) -> None:
    (cache / "used.lock").mkdir()  # As on a read-only file system, for root too.
    assert mark_used(cache / f"{USED}.sqsh")
    assert not mark_used(cache / f"{'c' * 64}.sqsh")
