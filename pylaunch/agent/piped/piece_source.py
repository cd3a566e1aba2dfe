"""Files that hosts are to have: read once, every file and every piece hashed, in the order in which hosts receive them.

The controller reads its files with it; hosts take only the sizes from here.
"""

from __future__ import annotations

import bisect
import hashlib
import os
import stat
from typing import Iterator, Sequence, Tuple

Span = Tuple[int, int, int]
"""File, offset in it, and number of bytes."""

PIECE = 4 << 20
MOST_PIECES = 4096
"""Pieces of a larger payload are larger, because the controller handles each piece of each host."""

MOST_FILES = 50_000
"""Each host receives the list of all files; more belong into an archive."""

CHUNK = 1 << 20


class SourceError(Exception):
    """Files that cannot be passed on, with the reason."""


class ChangedSourceError(SourceError):
    """A file changed while it was read."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} changed while it was read")
        self.path = path


def piece_size(size: int) -> int:
    """Return the bytes of each piece of a payload of `size` bytes."""
    piece = PIECE
    while size > piece * MOST_PIECES:
        piece *= 2
    return piece


def version(status: os.stat_result) -> tuple[int, int, int]:
    """Return what changes with the content of a file."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def spans(ends: Sequence[int], begin: int, end: int) -> Iterator[Span]:
    """Return the parts of files that a range of bytes consists of. `ends` are the ends of the files in the row."""
    index = bisect.bisect_right(ends, begin)
    while begin < end:
        first = ends[index - 1] if index else 0
        size = min(end, ends[index]) - begin
        if size:
            yield index, begin - first, size
        begin += size
        index += 1


class SourceTree:
    """Files, directories and links below the sources, in the order of their names."""

    def __init__(self) -> None:
        self.files: list[tuple[str, str, os.stat_result]] = []
        """Path here, path of the copy, status."""

        self.directories: list[str] = []
        """Each after its parent."""

        self.links: list[tuple[str, str]] = []

    def add(self, source: str, path: str, is_named: bool = True) -> None:
        """Add a source under `path`; a link that is named stands for what it leads to, one below a directory stays.
        Raises SourceError."""
        try:
            status = os.stat(source) if is_named else os.lstat(source)
            if stat.S_ISLNK(status.st_mode):
                self.links.append((path, os.readlink(source)))
            elif stat.S_ISDIR(status.st_mode):
                self.directories.append(path)
                for name in sorted(os.listdir(source)):
                    self.add(os.path.join(source, name), f"{path}/{name}", False)
            elif stat.S_ISREG(status.st_mode):
                self.files.append((source, path, status))
            else:
                raise SourceError(f"{source}: neither file, directory nor link")
        except OSError as error:
            raise SourceError(f"{source}: {error.strerror}") from None
        except RecursionError:
            raise SourceError(f"{source[:200]}…: too many directories in each other: push an archive of them") from None
        if len(self.files) + len(self.links) + len(self.directories) > MOST_FILES:
            raise SourceError(f"{source}: more than {MOST_FILES} files: push an archive of them")

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(status.st_size for _, _, status in self.files)


class PieceHashes:
    """Hashes of the pieces of a row of bytes."""

    def __init__(self, size: int) -> None:
        """`size` is that of a piece."""
        self.size = size
        self._left = size
        self._hash = hashlib.sha256()
        self._found: list[bytes] = []

    def add(self, source: str, size: int) -> str:
        """Add a file; return its own hash. Raises SourceError."""
        own, read = hashlib.sha256(), 0
        for chunk in _chunks(source):
            own.update(chunk)
            read += len(chunk)
            while chunk:
                taken, chunk = chunk[: self._left], chunk[self._left :]
                self._hash.update(taken)
                self._left -= len(taken)
                if not self._left:
                    self._next()
        if read != size:
            raise ChangedSourceError(source)
        return own.hexdigest()

    def _next(self) -> None:
        self._found.append(self._hash.digest())
        self._hash, self._left = hashlib.sha256(), self.size

    def ended(self) -> tuple[bytes, ...]:
        """Return the hashes; the last piece may be short."""
        if self._left < self.size:
            self._next()
        return tuple(self._found)


def _chunks(source: str) -> Iterator[bytes]:
    try:
        with open(source, "rb") as file:
            while True:
                chunk = file.read(CHUNK)
                if not chunk:
                    return
                yield chunk
    except OSError as error:
        raise SourceError(f"{source}: {error.strerror}") from None
