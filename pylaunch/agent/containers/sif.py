"""Place of the root directory in a SIF file, as Apptainer and Singularity write it.

A SIF file has a header, a table of descriptors and the data objects that these describe. The root directory is the one
object that is the primary system partition. Every number here is one of a file that anybody can write.
"""

import os
import struct
from typing import BinaryIO

MAGIC = b"SIF_MAGIC\0"
MAGIC_AT = 32
"""Bytes of the line before the magic, with which a kernel starts the file as a script."""

VERSION = b"01\0"
_HEADER = struct.Struct("<32x10x3s3x16x16x8xqq8x16x")
"""Version, entries of the table of descriptors, and its place."""

_DESCRIPTOR = struct.Struct("<i?12xqq40x128xii376x")
"""Kind of the object, whether the entry is used, place and size; of a partition its file system and its use."""

MOST_DESCRIPTORS = 4096
"""Apptainer makes tables of 48."""

PARTITION = 0x4004
PRIMARY_SYSTEM = 2
SQUASHFS = 1
OTHERS = {
    2: ("ext3", "apptainer build --sandbox DIRECTORY FILE, and push the directory"),
    5: ("an encrypted squashfs", "build it without --encrypt"),
}
"""File systems that are not mounted, each with the next step."""


class SifError(Exception):
    """The file has no root directory that can be mounted. `hint` is the next step, "" for none."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


def squashfs_offset(source: BinaryIO) -> int:
    """Return the place of the squashfs with the root directory in `source`, a file with MAGIC. Raises SifError."""
    size = source.seek(0, os.SEEK_END)
    version, entries, table = _HEADER.unpack(_bytes(source, size, 0, _HEADER.size))
    if version != VERSION:
        raise SifError(f"version {version[:2].decode('ascii', 'replace')!r} of the format, not '01'")
    if not 0 <= entries <= MOST_DESCRIPTORS:
        raise SifError(f"{entries} descriptors, more than {MOST_DESCRIPTORS}")
    roots = [
        (place, length, file_system)
        for kind, is_used, place, length, file_system, use in _DESCRIPTOR.iter_unpack(
            _bytes(source, size, table, entries * _DESCRIPTOR.size)
        )
        if is_used and kind == PARTITION and use == PRIMARY_SYSTEM
    ]
    if len(roots) != 1:
        raise SifError(f"{len(roots)} primary system partitions, not 1")
    place, length, file_system = roots[0]
    if file_system != SQUASHFS:
        name, hint = OTHERS.get(file_system, (f"file system {file_system}", ""))
        raise SifError(f"its root directory is {name}, not a squashfs", hint)
    _must_contain(size, place, length)
    return int(place)


def _bytes(source: BinaryIO, size: int, place: int, length: int) -> bytes:
    _must_contain(size, place, length)
    source.seek(place)
    found = source.read(length)
    if len(found) != length:
        raise SifError("it became shorter while it was read")
    return found


def _must_contain(size: int, place: int, length: int) -> None:
    if place < 0 or length < 0 or place + length > size:
        raise SifError(f"bytes {place} to {place + length} are outside of the file, which has {size}: is it whole?")
