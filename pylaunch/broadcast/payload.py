"""Files to broadcast: read once, every file and every piece hashed, in the order in which all hosts receive them."""

import hashlib
import itertools
import json
import os
import stat
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pylaunch.agent.piped.piece_source import (
    ChangedSourceError,
    PieceHashes,
    SourceError,
    SourceTree,
    piece_size,
    spans,
    version,
)  # fmt: skip
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.manifest import File, SymbolicLink


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

    versions: tuple[tuple[int, int, int], ...] = ()
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


def read_payload(sources: Sequence[Path], destination: str) -> Payload:
    """Read and hash `sources` for `destination` on the hosts, which is a directory if it ends with / or there are
    several sources, and else the path that the source gets. Raises UsageError."""
    names = [Path(os.path.normpath(source.absolute())).name for source in sources]  # Of "..", too.
    base, paths = copies_of(names, destination)
    tree = SourceTree()
    try:
        for source, path in zip(sources, paths, strict=True):
            tree.add(str(source), path)
        hashes = PieceHashes(piece_size(tree.size))
        files = tuple(
            File(path, stat.S_IMODE(status.st_mode) & 0o777, status.st_size, hashes.add(source, status.st_size))
            for source, path, status in tree.files
        )
    except ChangedSourceError as error:
        raise ChangedError([Path(error.path)]) from None
    except SourceError as error:
        raise UsageError(str(error)) from None
    from_here = tuple(Path(source) for source, _, _ in tree.files)
    versions = tuple(version(status) for _, _, status in tree.files)
    links = tuple(SymbolicLink(*each) for each in tree.links)
    return Payload(base, from_here, files, tuple(tree.directories), links, hashes.size, hashes.ended(), versions)


def stored_files(sizes: Mapping[Path, int]) -> Payload:
    """Read and hash files of known sizes for the store of shipped content on the hosts, where the path of content is
    its hash (`base.layout.NodeRoot.blob`). Raises ChangedError for a file of another size, and UsageError for one that
    cannot be read."""
    hashes = PieceHashes(piece_size(sum(sizes.values())))
    files, versions = [], []
    for source, size in sizes.items():
        try:
            versions.append(version(source.stat()))
            digest = hashes.add(str(source), size)
        except ChangedSourceError:
            raise ChangedError([source]) from None
        except SourceError as error:
            raise UsageError(str(error)) from None
        except OSError as error:
            raise _unreadable(source, error) from None
        files.append(File(f"{digest[:2]}/{digest}", 0o400, size, digest))
    directories = tuple(sorted({file.digest[:2] for file in files}))
    return Payload(None, tuple(sizes), tuple(files), directories, (), hashes.size, hashes.ended(), tuple(versions))


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


def _version(source: Path) -> tuple[int, int, int] | None:
    return version(source.stat()) if source.exists() else None


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
