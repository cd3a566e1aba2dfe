"""Log files of any launcher as blocks of bytes: plain or gzip'd, from paths, directories or stdin."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path

BLOCK = 1 << 20
LONGEST_FILE = 8 << 30
"""Bytes of one file that are read, after decompression."""

MOST_FILES = 10_000
_GZIP = b"\x1f\x8b"
_NOT_LOGS = {
    ".pt",
    ".pth",
    ".ckpt",
    ".bin",
    ".safetensors",
    ".npy",
    ".npz",
    ".so",
    ".pyc",
    ".whl",
    ".zip",
    ".pickle",
    ".pkl",
}


def files_of(path: Path) -> list[Path]:
    """Return `path`, or the files below it if it is a directory, sorted; checkpoints and binaries are omitted.

    A named pipe is not opened: its writer would see the end of its reader. Raises OSError if `path` cannot be read.
    """
    if stat.S_ISFIFO(path.stat().st_mode):
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return [path]
    if not path.is_dir():
        with path.open("rb"):
            return [path]
    found = (each for each in sorted(path.rglob("*")) if each.suffix not in _NOT_LOGS and each.is_file())
    return [each for each, _ in zip(found, range(MOST_FILES), strict=False)]


def blocks_of(path: Path, complain: Callable[[str], None]) -> Iterator[bytes]:
    """Yield the content of a file; a file that breaks off or cannot be read is reported and ends there."""
    try:
        with path.open("rb") as file:
            yield from stream_blocks(file, str(path), complain)
    except OSError as error:
        complain(f"{path} cannot be read: {error.strerror}")


def stream_blocks(stream: BufferedReader, name: str, complain: Callable[[str], None]) -> Iterator[bytes]:
    """Yield the content of an open stream, decompressed if it begins like gzip."""
    try:
        if stream.peek(2)[:2] == _GZIP:
            with gzip.GzipFile(fileobj=stream, mode="rb") as unpacked:
                yield from _bounded(unpacked.read, name, complain)
        else:
            yield from _bounded(stream.read, name, complain)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        complain(f"{name}: the compressed file breaks off: {error}")


def _bounded(read: Callable[[int], bytes], name: str, complain: Callable[[str], None]) -> Iterator[bytes]:
    size = 0
    while block := read(BLOCK):
        yield block
        size += len(block)
        if size >= LONGEST_FILE:
            complain(f"{name}: only the first {LONGEST_FILE >> 30} GiB are read")
            return
