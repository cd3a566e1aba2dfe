"""Write files below one directory. No name and no link of what is there leads out of it.

A file that is not complete is `.NAME.SIZE-MTIME.part`: the same version of the file continues it.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from pylaunch.features.fetch.choice import Fetched

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Presence(Enum):
    """State of the place of a file."""

    ABSENT = "absent"
    SAME = "same"
    """A file of this size and time."""

    DIFFERENT = "different"


def presence(directory: Path, wanted: Fetched) -> Presence:
    """Return what is here in the place of `wanted`."""
    status = None
    with contextlib.suppress(FileNotFoundError), _parent(directory, wanted, make=False) as parent:
        status = os.stat(wanted.place[-1], dir_fd=parent, follow_symlinks=False)
    if status is None:
        return Presence.ABSENT
    same = (status.st_size, status.st_mtime_ns) == (wanted.file.size, wanted.file.mtime_ns)
    return Presence.SAME if same and stat.S_ISREG(status.st_mode) else Presence.DIFFERENT


def arrived(directory: Path, wanted: Fetched) -> int:
    """Return the bytes of `wanted` that have arrived before. Raises OSError for a place that cannot be used."""
    with contextlib.suppress(FileNotFoundError), _parent(directory, wanted, make=False) as parent:
        return os.stat(_name(wanted), dir_fd=parent, follow_symlinks=False).st_size
    return 0


def _name(wanted: Fetched) -> str:
    return f".{wanted.place[-1]}.{wanted.file.size}-{wanted.file.mtime_ns}.part"


class PartialFile:
    """The bytes of a file that have arrived."""

    def __init__(self, parent: int, wanted: Fetched) -> None:
        self._parent, self._wanted = parent, wanted
        self._name = _name(wanted)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        self.descriptor = os.open(self._name, flags, 0o666, dir_fd=parent)
        status = os.fstat(self.descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > wanted.file.size:
            os.close(self.descriptor)
            raise OSError(errno.EINVAL, f"{self._name} is no part of this file")
        self.size = status.st_size

    def write(self, data: bytes) -> None:
        """Append `data`."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.descriptor, view) :]
        self.size += len(data)

    def complete(self) -> None:
        """Give the file its time and its name."""
        os.utime(self.descriptor, ns=(self._wanted.file.mtime_ns, self._wanted.file.mtime_ns))
        os.rename(self._name, self._wanted.place[-1], src_dir_fd=self._parent, dst_dir_fd=self._parent)

    def discard(self) -> None:
        """Remove what has arrived: the file changed on its node."""
        os.unlink(self._name, dir_fd=self._parent)


@contextlib.contextmanager
def partial(directory: Path, wanted: Fetched) -> Iterator[PartialFile]:
    """Open what has arrived of `wanted`, or begin it. Raises OSError."""
    with _parent(directory, wanted, make=True) as parent:
        made = PartialFile(parent, wanted)
        try:
            yield made
        finally:
            os.close(made.descriptor)


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
