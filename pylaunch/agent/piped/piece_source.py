"""Files that hosts are to have: read once, every file and every piece hashed, in the order in which hosts receive them.

The controller reads its own files with it. On a node, `PieceSource` has the files that the others are to have.
"""

from __future__ import annotations

import bisect
import hashlib
import os
import stat
from typing import Any, Callable, Iterator, Sequence, Tuple

Span = Tuple[int, int, int]
"""File, offset in it, and number of bytes."""

PIECE = 4 << 20
MOST_PIECES = 4096
"""Pieces of a larger payload are larger, because the controller handles each piece of each host."""

MOST_FILES = 50_000
"""Each host receives the list of all files; more belong into an archive."""

CHUNK = 1 << 20
LISTED = 200
"""Entries of one message to the controller, which refuses long lines."""


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

    def __init__(self, size: int, count: Callable[[int], None] = lambda size: None) -> None:
        """`size` is that of a piece; `count` gets the number of bytes that were read."""
        self.size = size
        self._count = count
        self._left = size
        self._hash = hashlib.sha256()
        self._found: list[bytes] = []

    def add(self, source: str, size: int) -> str:
        """Add a file; return its own hash. Raises SourceError."""
        own, read = hashlib.sha256(), 0
        for chunk in _chunks(source):
            own.update(chunk)
            read += len(chunk)
            self._count(len(chunk))
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


class PieceSource:
    """Files of this node that it passes on, as they were when it hashed them."""

    def __init__(self, sources: list[tuple[str, str]]) -> None:
        """`sources` are paths here, each with the path of its copy."""
        self._sources = sources
        self._tree = SourceTree()
        self._piece = PIECE
        self._ends: list[int] = []
        self.have: list[bool] = []
        self.hashed = 0

    def open(self) -> list[dict[str, Any]]:
        """Read and hash everything; return the messages that describe it. Raises SourceError."""
        for source, path in self._sources:
            self._tree.add(os.path.expanduser(source), path)
        files = self._tree.files
        self._piece = piece_size(self._tree.size)
        hashes = PieceHashes(self._piece, self._hashed)
        found = []
        for source, path, status in files:
            digest = hashes.add(source, status.st_size)
            self._ends.append(status.st_size + (self._ends[-1] if self._ends else 0))
            if version(os.stat(source)) != version(status):
                raise ChangedSourceError(source)
            found.append((path, stat.S_IMODE(status.st_mode) & 0o777, status.st_size, digest))
        pieces = [each.hex() for each in hashes.ended()]
        self.have = [True] * len(pieces)
        lists = (("directories", self._tree.directories), ("files", found), ("links", self._tree.links))
        messages = [
            {name: entries[at : at + LISTED]} for name, entries in lists for at in range(0, len(entries), LISTED)
        ]
        return [*messages, {"hashes": pieces}]

    def _hashed(self, size: int) -> None:
        self.hashed += size

    def parts(self, piece: int) -> Iterator[tuple[int, int, int]]:
        """Return open descriptors, offsets and sizes of the parts of a piece; each is closed after use. Raises
        SourceError."""
        begin = piece * self._piece
        for index, offset, size in spans(self._ends, begin, min(begin + self._piece, self._ends[-1])):
            source, _, status = self._tree.files[index]
            try:
                descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError:
                raise ChangedSourceError(source) from None
            except OSError as error:
                raise SourceError(f"{source}: {error.strerror}") from None
            try:
                if version(os.fstat(descriptor)) != version(status):
                    raise ChangedSourceError(source)
                yield descriptor, offset, size
            finally:
                os.close(descriptor)
