"""Files that readers find whole, with their old content or the new one, and files that only their owner reads."""

import os
from pathlib import Path

PRIVATE = 0o600


def write_whole(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Replace `path` by a file with `content`.

    Raises OSError, as for a full disk; then `path` is as before, and nothing is left beside it.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(content)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def append(path: Path, content: bytes) -> None:
    """Append `content` to `path`, which is made for its owner alone. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE), "ab") as file:
        file.write(content)


def make_private(directory: Path, within: Path) -> None:
    """Make `directory`, and those above it up to `within`, for their owner alone: those that are there too.

    Raises OSError, FileExistsError for a `directory` that is there.
    """
    above = [each for each in (within, *within.parents) if not each.exists()]
    for each in reversed(above):
        each.mkdir(mode=0o700, exist_ok=True)
    for level in (each for each in reversed(directory.parents) if each == within or within in each.parents):
        level.mkdir(mode=0o700, exist_ok=True)
        if level.stat().st_mode & 0o077 and level.stat().st_uid == os.getuid():
            level.chmod(0o700)
    directory.mkdir(mode=0o700)
