"""Files to broadcast: read once, every file and every piece hashed, in the order in which all hosts receive them."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
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

    base: str | None
    """Directory on the hosts that all paths are relative to; relative to the login directory if it is relative. None
    for the store of shipped content in the node root, where files are not flushed, because every use verifies them."""

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

    @cached_property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def size_of(self, piece: int) -> int:
        """Return the bytes of a piece."""
        return min(self.piece, self.size - piece * self.piece)

    @cached_property
    def order(self) -> dict[str, object]:
        """Fields of the first line to a host: all that it is to receive."""
        body = {
            "base": self.base,
            "is_flushed": self.base is not None,
            "files": [(file.path, file.mode, file.size, file.digest) for file in self.files],
            "directories": self.directories,
            "links": [(link.path, link.target) for link in self.links],
            "piece": self.piece,
            "hashes": [each.hex() for each in self.hashes],
        }
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        return {**body, "id": digest[:16]}

    def read(self, piece: int) -> bytes:
        """Return the bytes of a piece. Raises ChangedError."""
        begin = piece * self.piece
        parts, first = [], 0
        end = begin + self.size_of(piece)
        sources = []
        for source, file in zip(self.sources, self.files, strict=True):
            low, high = max(begin, first), min(end, first + file.size)
            if low < high:
                sources.append(source)
                parts.append(_part(source, low - first, high - low))
            first += file.size
        content = b"".join(parts)
        if hashlib.sha256(content).digest() != self.hashes[piece]:
            raise ChangedError(sources)
        return content


def read_payload(sources: Sequence[Path], destination: str) -> Payload:
    """Read and hash `sources` for `destination` on the hosts, which is a directory if it ends with / or there are
    several sources, and else the path that the source gets. Raises UsageError."""
    base, names = _names(sources, destination)
    walk = _Sources()
    for source, name in zip(sources, names, strict=True):
        walk.add(source, name)
    pieces = _Pieces(_piece_of(sum(status.st_size for _, _, status in walk.files)))
    files = tuple(
        File(path, stat.S_IMODE(status.st_mode) & 0o777, status.st_size, pieces.add(source, status.st_size))
        for source, path, status in walk.files
    )
    from_here = tuple(source for source, _, _ in walk.files)
    return Payload(base, from_here, files, tuple(walk.directories), tuple(walk.links), pieces.size, pieces.ended())


def stored_content(contents: Mapping[Path, File]) -> Payload:
    """Read and hash content for the store of shipped content on the hosts, where its path is its hash
    (`base.layout.NodeRoot.blob`). Raises ChangedError for a file whose content is not that of its `File`."""
    pieces = _Pieces(_piece_of(sum(file.size for file in contents.values())))
    files = []
    for source, file in contents.items():
        if pieces.add(source, file.size) != file.digest:
            raise ChangedError([source])
        files.append(File(f"{file.digest[:2]}/{file.digest}", 0o400, file.size, file.digest))
    directories = tuple(sorted({file.digest[:2] for file in files}))
    return Payload(None, tuple(contents), tuple(files), directories, (), pieces.size, pieces.ended())


def _piece_of(size: int) -> int:
    piece = PIECE
    while size > piece * MOST_PIECES:
        piece *= 2
    return piece


def _names(sources: Sequence[Path], destination: str) -> tuple[str, list[str]]:
    if len(sources) > 1 or destination.endswith("/") or destination in (".", ".."):
        names = [Path(os.path.normpath(source.absolute())).name for source in sources]  # Of "..", too.
        if "" in names:
            raise UsageError("/ has no name that the copy could have", hint="name a directory below it")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise UsageError(f"two sources have the name {twice}", hint="push them to two destinations")
        return destination, names
    base, name = os.path.split(destination)
    if name in ("", ".."):
        raise UsageError(f"destination {destination!r}: no file name", hint="pylaunch push FILE /data/")
    return base or ".", [name]


class _Sources:
    """Files, directories and links below the sources, in the order of their names."""

    def __init__(self) -> None:
        self.files: list[tuple[Path, str, os.stat_result]] = []
        self.directories: list[str] = []
        self.links: list[SymbolicLink] = []

    def add(self, source: Path, path: str, *, is_named: bool = True) -> None:
        """Add a source under `path`; a link that is named stands for what it leads to, one below a directory stays."""
        try:
            status = source.stat() if is_named else source.lstat()
            if stat.S_ISLNK(status.st_mode):
                self.links.append(SymbolicLink(path, str(source.readlink())))
            elif stat.S_ISDIR(status.st_mode):
                self.directories.append(path)
                for each in sorted(source.iterdir()):
                    self.add(each, f"{path}/{each.name}", is_named=False)
            elif stat.S_ISREG(status.st_mode):
                self.files.append((source, path, status))
            else:
                raise UsageError(f"{source}: neither file, directory nor link")
        except OSError as error:
            raise UsageError(f"{source}: {error.strerror}") from None
        if len(self.files) + len(self.links) + len(self.directories) > MOST_FILES:
            hint = "push an archive: tar -cf DIR.tar DIR && pylaunch push DIR.tar DEST"
            raise UsageError(f"{source}: more than {MOST_FILES} files", hint=hint)


class _Pieces:
    """Hashes of the pieces of a row of bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._left = size
        self._hash = hashlib.sha256()
        self._found: list[bytes] = []

    def add(self, source: Path, size: int) -> str:
        """Add a file; return its own hash. Raises UsageError."""
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
            raise ChangedError([source])
        return own.hexdigest()

    def _next(self) -> None:
        self._found.append(self._hash.digest())
        self._hash, self._left = hashlib.sha256(), self.size

    def ended(self) -> tuple[bytes, ...]:
        """Return the hashes; the last piece may be short."""
        if self._left < self.size:
            self._next()
        return tuple(self._found)


def _chunks(source: Path) -> Iterator[bytes]:
    try:
        with source.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError as error:
        raise UsageError(f"{source}: {error.strerror}") from None


def _part(source: Path, offset: int, size: int) -> bytes:
    try:
        with source.open("rb") as file:
            file.seek(offset)
            return file.read(size)
    except OSError:
        raise ChangedError([source]) from None
