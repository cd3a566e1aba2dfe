"""Log files of any launcher as blocks of bytes: plain or gzip'd, from paths, directories or stdin."""

import errno
import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from io import BufferedIOBase, BufferedReader
from pathlib import Path

from pylaunch.model.text.quantity import shown_size

BLOCK = 1 << 20
LONGEST_FILE = 1 << 34
"""Bytes of one file that are read, after decompression: a quarter of an hour of work."""

LONGEST_LINE = 1 << 16
"""Bytes of a line that are kept: no program prints a longer one about a failure."""

MOST_FILES = 10_000
_GZIP = b"\x1f\x8b"
_NOT_LOGS = (
    ".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npy", ".npz", ".so", ".pyc", ".whl", ".zip", ".pickle", ".pkl",
)  # fmt: skip


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
                yield from _with_short_lines(_bounded(unpacked, name, complain), name, complain)
        else:
            yield from _with_short_lines(_bounded(stream, name, complain), name, complain)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        complain(f"{name}: the compressed file breaks off: {error}")


def _bounded(file: BufferedIOBase, name: str, complain: Callable[[str], None]) -> Iterator[bytes]:
    left = LONGEST_FILE
    while left > 0 and (block := file.read(min(BLOCK, left))):
        yield block
        left -= len(block)
    if left == 0:
        complain(f"{name}: only the first {shown_size(LONGEST_FILE)} are read")


def _with_short_lines(blocks: Iterator[bytes], name: str, complain: Callable[[str], None]) -> Iterator[bytes]:
    """Yield `blocks` without what follows the first LONGEST_LINE bytes of a line; says so once."""
    length, has_complained = 0, False
    for block in blocks:
        kept, at = [], 0
        while at < len(block):
            limit = at + LONGEST_LINE - length
            end = max(block.rfind(b"\n", at, limit), block.rfind(b"\r", at, limit)) + 1
            if end > 0:
                kept.append(block[at:end])
                at, length = end, 0
            elif limit >= len(block):
                kept.append(block[at:])
                at, length = len(block), length + len(block) - at
            else:
                kept.append(block[at : max(at, limit)])
                length = LONGEST_LINE
                ends = [each for each in (block.find(b"\n", at), block.find(b"\r", at)) if each >= 0]
                at = min(ends, default=len(block))
                if ends:
                    kept.append(block[at : at + 1])
                    at, length = at + 1, 0
                if not has_complained:
                    has_complained = True
                    complain(f"{name}: of lines with more than {shown_size(LONGEST_LINE)}, the rest is not read")
        yield b"".join(kept)
