"""Images that starts made on this machine: those that no start has used for long are removed.

`<id>.sqsh` in the directory of images is one, and the time of its `<id>.json` that of its last use.
"""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from pylaunch.store.paths import cache_directory

UNUSED_S = 14 * 86400.0
_ID = re.compile(r"[0-9a-f]{64}\Z")


def images_directory() -> Path:
    """Return the directory of images."""
    return cache_directory() / "images"


def mark_used(image: Path) -> bool:
    """Record that a start uses an image of the cache now, unless the cache cannot be written; return False where the
    image is gone."""
    with contextlib.suppress(OSError), _alone(image.parent):
        os.utime(image.with_suffix(".json"))
    return image.is_file()


def remove_unused() -> None:
    """Remove images that no start has used for UNUSED_S. Other files stay. Raises OSError."""
    directory = images_directory()
    kept = [each for each in directory.glob("*.json") if _ID.match(each.stem)]
    if any(map(_is_unused, kept)):
        with _alone(directory):
            for each in filter(_is_unused, kept):  # Another start may have marked one meanwhile.
                each.with_suffix(".sqsh").unlink(missing_ok=True)
                each.unlink(missing_ok=True)


def _is_unused(mark: Path) -> bool:
    try:
        return time.time() - mark.stat().st_mtime > UNUSED_S
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    with (directory / "used.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
