"""Files to push: read once, every file and every piece hashed, in the order in which all hosts receive them."""

import hashlib
import itertools
import json
import os
import stat
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.features.push.on_node.store import spans
from pylaunch.model.manifest import File, SymbolicLink

PIECE = 4 << 20
MOST_PIECES = 4096
"""Pieces of a larger payload are larger, because the controller handles each piece of each host."""

MOST_FILES = 50_000
"""Each host receives the list of all files; more belong into an archive."""

CHUNK = 1 << 20


class ChangedError(UsageError):
    """A file changed while it was being pushed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """`paths` are the files of a piece, at least one of which changed."""
        which = f"{paths[0]}" if len(paths) == 1 else f"one of {len(paths)} files from {paths[0]} to {paths[-1]}"
        super().__init__(f"{which} changed while it was being pushed", hint="push again when nothing writes there")


@dataclass(frozen=True)
class Payload:
    """Files, links and directories, with the hashes of the pieces into which their bytes are divided."""

    base: str
    """Directory on the hosts that all paths are relative to; relative to the login directory if it is relative."""

    sources: tuple[Path, ...]
    """File on this machine of each of `files`."""

    files: tuple[File, ...]
    directories: tuple[str, ...]
    """Each after its parent."""

    links: tuple[SymbolicLink, ...]
    piece: int
    """Bytes of each piece but the last."""

    hashes: tuple[bytes, ...]
    """SHA-256 of each piece."""

    versions: tuple[tuple[int, int, int] | None, ...] = ()
    """Of `sources`, before they were hashed."""

    @cached_property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        return tuple(itertools.accumulate(file.size for file in self.files))

    def size_of(self, piece: int) -> int:
        """Return the bytes of a piece."""
        return min(self.piece, self.size - piece * self.piece)

    @cached_property
    def order(self) -> dict[str, object]:
        """Fields of the first line to a host: all that it is to receive."""
        body = {
            "base": self.base,
            "files": [(file.path, file.mode, file.size, file.digest) for file in self.files],
            "directories": self.directories,
            "links": [(link.path, link.target) for link in self.links],
            "piece": self.piece,
            "hashes": [each.hex() for each in self.hashes],
        }
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        return {**body, "id": digest[:16]}

    def read(self, piece: int) -> bytes:
        """Return the bytes of a piece. Raises ChangedError, and UsageError for a file that cannot be read."""
        begin = piece * self.piece
        parts = [*spans(self._ends, begin, begin + self.size_of(piece))]
        content = b"".join(_part(self.sources[index], offset, size) for index, offset, size in parts)
        if hashlib.sha256(content).digest() != self.hashes[piece]:
            files = {self.sources[index]: self.versions[index] for index, _, _ in parts}
            if changed := [source for source, before in files.items() if _version(source) != before]:
                raise ChangedError(changed)
            names = " or ".join(map(str, [*files][:3]))
            raise UsageError(f"{names} has other bytes when it is read again, and no other time: does its disk fail?")
        return content


def piece_size(size: int) -> int:
    """Return the bytes of each piece of a payload of `size` bytes."""
    piece = PIECE
    while size > piece * MOST_PIECES:
        piece *= 2
    return piece


def _version(source: Path) -> tuple[int, int, int] | None:
    """Return what changes with the content of a file; None without one."""
    try:
        status = source.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class _Tree:
    """Files, directories and links below the sources, in the order of their names."""

    def __init__(self) -> None:
        self.files: list[tuple[Path, str, os.stat_result]] = []
        """Path here, path of the copy, status."""

        self.directories: list[str] = []
        """Each after its parent."""

        self.links: list[tuple[str, str]] = []

    def add(self, source: Path, path: str, *, is_named: bool = True) -> None:
        """Add a source under `path`; a link that is named stands for what it leads to, one below a directory stays.
        Raises UsageError."""
        try:
            status = source.stat() if is_named else source.lstat()
            if stat.S_ISLNK(status.st_mode):
                self.links.append((path, str(source.readlink())))
            elif stat.S_ISDIR(status.st_mode):
                self.directories.append(path)
                for entry in sorted(source.iterdir()):
                    self.add(entry, f"{path}/{entry.name}", is_named=False)
            elif stat.S_ISREG(status.st_mode):
                self.files.append((source, path, status))
            else:
                raise UsageError(f"{source}: neither file, directory nor link")
        except OSError as error:
            raise UsageError(f"{source}: {error.strerror}") from None
        except RecursionError:
            where = str(source)[:200]
            raise UsageError(f"{where}…: too many directories in each other: push an archive of them") from None
        if len(self.files) + len(self.links) + len(self.directories) > MOST_FILES:
            raise UsageError(f"{source}: more than {MOST_FILES} files: push an archive of them")

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(status.st_size for _, _, status in self.files)


class _PieceHashes:
    """Hashes of the pieces of a row of bytes."""

    def __init__(self, size: int) -> None:
        """`size` is that of a piece."""
        self.size = size
        self._left = size
        self._hash = hashlib.sha256()
        self._found: list[bytes] = []

    def add(self, source: Path, size: int) -> str:
        """Add a file; return its own hash. Raises ChangedError for a file of another size, and UsageError."""
        own, read = hashlib.sha256(), 0
        try:
            with source.open("rb") as file:
                while chunk := file.read(CHUNK):
                    own.update(chunk)
                    read += len(chunk)
                    self._add(chunk)
        except OSError as error:
            raise _unreadable(source, error) from None
        if read != size:
            raise ChangedError([source])
        return own.hexdigest()

    def _add(self, chunk: bytes) -> None:
        while chunk:
            taken, chunk = chunk[: self._left], chunk[self._left :]
            self._hash.update(taken)
            self._left -= len(taken)
            if not self._left:
                self._next()

    def _next(self) -> None:
        self._found.append(self._hash.digest())
        self._hash, self._left = hashlib.sha256(), self.size

    def ended(self) -> tuple[bytes, ...]:
        """Return the hashes; the last piece may be short."""
        if self._left < self.size:
            self._next()
        return tuple(self._found)


def read_payload(sources: Sequence[Path], destination: str) -> Payload:
    """Read and hash `sources` for `destination` on the hosts, which is a directory if it ends with / or there are
    several sources, and else the path that the source gets. Raises UsageError."""
    names = [Path(os.path.normpath(source.absolute())).name for source in sources]  # Of "..", too.
    base, paths = copies_of(names, destination)
    tree = _Tree()
    for source, path in zip(sources, paths, strict=True):
        tree.add(source, path)
    from_here = tuple(source for source, _, _ in tree.files)
    versions = tuple(_version(source) for source in from_here)
    hashes = _PieceHashes(piece_size(tree.size))
    files = tuple(
        File(path, stat.S_IMODE(status.st_mode) & 0o777, status.st_size, hashes.add(source, status.st_size))
        for source, path, status in tree.files
    )
    links = tuple(SymbolicLink(*each) for each in tree.links)
    return Payload(base, from_here, files, tuple(tree.directories), links, hashes.size, hashes.ended(), versions)


def copies_of(names: Sequence[str], destination: str) -> tuple[str, list[str]]:
    """Return the directory on the hosts, and the path below it that each source gets. Raises UsageError."""
    if len(names) > 1 or destination.endswith("/") or destination in (".", ".."):
        if not {"", ".", ".."}.isdisjoint(names):
            raise UsageError("/ has no name that the copy could have", hint="name a directory below it")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise UsageError(f"two sources have the name {twice}", hint="push them to two destinations")
        return destination, [*names]
    base, name = os.path.split(destination)
    if name in ("", ".."):
        raise UsageError(f"destination {destination!r}: no file name", hint="pylaunch push FILE /data/")
    return base or ".", [name]


def _part(source: Path, offset: int, size: int) -> bytes:
    try:
        with source.open("rb") as file:
            file.seek(offset)
            return file.read(size)
    except OSError as error:
        raise _unreadable(source, error) from None


def _unreadable(source: Path, error: OSError) -> UsageError:
    is_gone = isinstance(error, FileNotFoundError)
    return ChangedError([source]) if is_gone else UsageError(f"{source}: {error.strerror}")
