"""Make a squashfs of the layers of an image, without root and without an unpacked directory.

The layers are read twice: first their headers and hashes, which decides what is a file of the root directory
(`layers.RootDirectory`), then their content, which goes to `mksquashfs` as one archive. Owners and modes stay. Extended
attributes do not, because no right that a file gives has an effect in a container of ranks. The same image gives the
same bytes on every machine with the same mksquashfs and libzstd: nothing depends on the time, the user or the machine.
"""

import contextlib
import copy
import hashlib
import shutil
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from gzip import BadGzipFile, GzipFile
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from pylaunch.base.dataclass import dataclass
from pylaunch.broadcast.progress import FIRST_LINE_S, LINE_S
from pylaunch.features.containers.image_archive import (
    GZIP,
    BoundedTarInfo,
    ImageArchive,
    ImageArchiveError,
    ImageContent,
)
from pylaunch.features.containers.layers import EntryKind, LayerEntry, LayerError, RootDirectory
from pylaunch.model.text.size import shown_size
from pylaunch.transport.process import ProgramNotFoundError, filter_process

ZSTD = b"\x28\xb5\x2f\xfd"
CHUNK = 1 << 20
LARGEST_FILE = 1 << 40
"""Bytes of one file of a layer."""

LARGEST_NUMBER = (1 << 32) - 1
"""Owners and times in a squashfs."""

MKSQUASHFS = (
    "-tar", "-quiet", "-no-progress", "-noappend", "-exit-on-error", "-no-xattrs", "-comp", "zstd",
    "-Xcompression-level", "3", "-root-mode", "755",
)  # fmt: skip
"""sqfstar 4.5 of Debian 12 takes no level of compression, and its default is slow."""


class _LayerStream:
    """Bytes of a layer, uncompressed, with their hash."""

    def __init__(self, source: Any, on_read: Callable[[int], None]) -> None:
        self._source = source
        self._on_read = on_read
        self.hashed = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; b"" at the end."""
        content: bytes = self._source.read(size)
        self.hashed.update(content)
        self._on_read(len(content))
        return content


@dataclass
class _BytesRead:
    """Bytes of layers, which are read twice: how many there are is known after the first time."""

    say: Callable[[str], None]
    next_line: float
    so_far: int = 0
    of_all: int = 0

    def add(self, size: int) -> None:
        """Count `size` further bytes; report them now and then."""
        self.so_far += size
        if time.monotonic() >= self.next_line:
            self.next_line = time.monotonic() + LINE_S
            share = f", {self.so_far / self.of_all:.0%} written" if self.of_all else " read"
            self.say(f"{shown_size(self.of_all or self.so_far)} of layers{share}")


class _Blob:
    """Bytes of a layer in the archive, whose errors are not those of the files that are written."""

    def __init__(self, file: BinaryIO, place: str) -> None:
        self._file = file
        self._place = place
        self.seek = file.seek

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes. Raises ImageArchiveError for an error of the disk."""
        try:
            return self._file.read(size)
        except OSError as error:
            raise ImageArchiveError(f"{self._place} cannot be read: {error.strerror or error}") from None


@dataclass(frozen=True)
class _Layers:
    archive: ImageArchive
    image: ImageContent
    directory: Path
    """With room for a layer."""

    on_read: Callable[[int], None]

    @contextlib.contextmanager
    def opened(self, number: int, *, is_again: bool = False) -> Iterator[tarfile.TarFile]:
        """Open a layer as a stream, and compare its hash at the end. Raises ImageArchiveError for one that cannot be
        read, is damaged, has a wrong entry, or differs from what was read before, if it is read again."""
        name, expected = self.image.layers[number], self.image.hashes[number]
        place = f"{self.archive.path}: layer {number + 1} ({name})"
        try:
            with self.archive.open(name) as file, _uncompressed(_Blob(file, place), self.directory) as source:
                stream = _LayerStream(source, self.on_read)
                with tarfile.open(fileobj=stream, mode="r|", tarinfo=BoundedTarInfo, bufsize=CHUNK) as tar:  # type: ignore[call-overload]
                    yield tar
                    while stream.read(CHUNK):
                        pass
            found = stream.hashed.hexdigest()
            error = "" if found == expected else f" has sha256 {found}, expected {expected}"
        except (tarfile.TarError, zlib.error, BadGzipFile, EOFError, RecursionError, ValueError) as damage:
            error = f" is damaged: {damage}"
        except LayerError as wrong:
            error = f": {wrong.message}"
        if error:
            again = " has other bytes when it is read again: does its disk fail?"
            raise ImageArchiveError(f"{place}{again if is_again else error}")


def convert(archive: ImageArchive, image: ImageContent, target: Path, name: str, say: Callable[[str], None]) -> None:
    """Write `image` as the new file `target`; lines of progress have `name`.

    Raises ImageArchiveError, LayerError, ProgramNotFoundError or OSError.
    """
    count = _BytesRead(lambda line: say(f"image {name}: {line}"), time.monotonic() + FIRST_LINE_S)
    layers = _Layers(archive, image, target.parent, count.add)
    root, newest = RootDirectory(), 0

    def entry(member: tarfile.TarInfo) -> LayerEntry:
        nonlocal newest
        newest = max(newest, _time(member))
        return _entry(member)

    for number in range(len(image.layers)):
        with layers.opened(number) as tar:
            root.apply(map(entry, _members(tar)))
    names, made = root.names()
    count.of_all, count.so_far = count.so_far, 0
    # mksquashfs would write the time of the conversion into the file system and its root directory.
    env = {"SOURCE_DATE_EPOCH": str(newest)}
    try:
        with filter_process(("mksquashfs", "-", str(target), *MKSQUASHFS), env=env) as (sink, ended):
            with contextlib.suppress(BrokenPipeError):  # `ended` has the reason.
                for path in made:
                    sink.write(_header(tarfile.TarInfo(path), path, tarfile.DIRTYPE, mode=0o755))
                for number in range(len(image.layers)):
                    with layers.opened(number, is_again=True) as tar:
                        for index, member in enumerate(_members(tar)):
                            if paths := names.get((number, index)):
                                _write(sink, tar, member, sorted(paths))
                sink.write(bytes(2 * tarfile.BLOCKSIZE))
            if why := ended():
                hint = "another directory for the cache, if the disk is full: XDG_CACHE_HOME=DIRECTORY"
                raise ImageArchiveError(f"{archive.path}: mksquashfs cannot write to {target.parent}: {why}", hint=hint)
    except ProgramNotFoundError as error:
        error.hint = "apt install squashfs-tools (version 4.5 or newer), or make a squashfs elsewhere"
        raise


def _write(sink: IO[bytes], tar: tarfile.TarFile, member: tarfile.TarInfo, paths: list[str]) -> None:
    """Write one entry at each of its paths: a file once, and further hard links to it."""
    for path in paths:
        if path == "." or member.isdir():
            sink.write(_header(member, path, tarfile.DIRTYPE))
        elif member.issym():
            sink.write(_header(member, path, tarfile.SYMTYPE, linkname=member.linkname))
        elif path != paths[0]:
            sink.write(_header(member, path, tarfile.LNKTYPE, linkname=paths[0]))
        else:
            sink.write(_header(member, path, tarfile.REGTYPE, size=member.size))
            content = tar.extractfile(member)
            assert content is not None
            while chunk := content.read(CHUNK):
                sink.write(chunk)
            sink.write(bytes(-member.size % tarfile.BLOCKSIZE))


def _header(member: tarfile.TarInfo, path: str, kind: bytes, **changed: Any) -> bytes:
    header = copy.copy(member)
    header.name, header.type, header.size, header.linkname, header.pax_headers = path, kind, 0, "", {}
    header.uname = header.gname = ""
    header.mtime = _time(header)
    if not 0 <= max(header.uid, header.gid) <= LARGEST_NUMBER or min(header.uid, header.gid) < 0:
        raise LayerError(f"{path!r} belongs to {header.uid}:{header.gid}")
    for name, value in changed.items():
        setattr(header, name, value)
    return header.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _time(member: tarfile.TarInfo) -> int:
    return int(min(max(0, member.mtime), LARGEST_NUMBER))


def _entry(member: tarfile.TarInfo) -> LayerEntry:
    if member.isdir():
        kind = EntryKind.DIRECTORY
    elif member.issym():
        kind = EntryKind.SYMBOLIC_LINK
    elif member.islnk():
        kind = EntryKind.HARD_LINK
    elif member.isreg() and not member.issparse():
        kind = EntryKind.FILE
    elif member.isdev():
        kind = EntryKind.IGNORED
    else:
        raise LayerError(f"{member.name!r} is of type {member.type!r}, which layers do not have")
    return LayerEntry(member.name, kind, member.linkname)


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in tar:
        if not 0 <= member.size <= LARGEST_FILE:
            raise LayerError(f"{member.name!r} has a size of {member.size} bytes")
        yield member
        tar.members.clear()  # type: ignore[attr-defined]  # It would keep every header.


@contextlib.contextmanager
def _uncompressed(blob: _Blob, directory: Path) -> Iterator[Any]:
    start = blob.read(4)
    blob.seek(0)
    if start[:2] == GZIP:
        with GzipFile(fileobj=cast(BinaryIO, blob)) as layer:
            yield layer
    elif start == ZSTD:
        with _unzstd(blob, directory) as pipe:
            yield pipe
    else:
        yield blob


@contextlib.contextmanager
def _unzstd(blob: _Blob, directory: Path) -> Iterator[IO[bytes]]:
    """Uncompress `blob` with the program, which needs a file of its own; `directory` has room for one."""
    with tempfile.TemporaryFile(dir=directory) as compressed:
        shutil.copyfileobj(blob, compressed, CHUNK)
        compressed.seek(0)
        with filter_process(("zstd", "-dcq"), compressed) as (layer, _):
            yield layer
