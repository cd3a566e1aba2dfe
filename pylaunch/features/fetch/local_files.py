"""Write files below one directory. No name and no link of what is there leads out of it."""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

from pylaunch.features.fetch.choice import Fetched

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class Presence(Enum):
    """State of the place of a file."""

    ABSENT = "absent"
    SAME = "same"
    """A file of this size and time."""

    DIFFERENT = "different"


def presence(directory: Path, wanted: Fetched) -> Presence:
    """Return what is here in the place of `wanted`. Raises OSError for a place that cannot be used."""
    status = None
    with contextlib.suppress(FileNotFoundError), _parent(directory, wanted, make=False) as parent:
        status = os.stat(wanted.place[-1], dir_fd=parent, follow_symlinks=False)
    if status is None:
        return Presence.ABSENT
    same = (status.st_size, status.st_mtime_ns) == (wanted.file.size, wanted.file.mtime_ns)
    return Presence.SAME if same and stat.S_ISREG(status.st_mode) else Presence.DIFFERENT


def write_file(directory: Path, wanted: Fetched, contents: Iterable[bytes]) -> None:
    """Write `contents` to the place of `wanted`, whole or not at all. Raises OSError, and what `contents` raises."""
    with _parent(directory, wanted, make=True) as parent:
        part = f".{wanted.place[-1]}.part"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=parent)
        try:
            with open(os.open(part, _NEW, 0o666, dir_fd=parent), "wb") as file:  # noqa: PTH123 -- relative to `parent`
                file.writelines(contents)
                file.flush()
                os.utime(file.fileno(), ns=(wanted.file.mtime_ns, wanted.file.mtime_ns))
            os.rename(part, wanted.place[-1], src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=parent)
            raise


@contextlib.contextmanager
def _parent(directory: Path, wanted: Fetched, *, make: bool) -> Iterator[int]:
    """Open the directory of the file, one name after the other, without following a link. Raises OSError."""
    if make:
        directory.mkdir(parents=True, exist_ok=True)
    here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in wanted.place[:-1]:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
            below = os.open(name, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)
